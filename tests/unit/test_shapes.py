"""The default dataset: made from its seed alone, balanced, noisy, the same everywhere."""

import numpy as np

from trainmark.data.datasets.shapes import Shapes, ShapesSettings


def test_the_same_seed_makes_the_same_images_and_another_does_not() -> None:
    first, again = (Shapes(ShapesSettings(num_train=300)).load("train") for _ in range(2))
    other = Shapes(ShapesSettings(num_train=300, seed=2)).load("train")
    assert first.fingerprint() == again.fingerprint()
    assert first.fingerprint() != other.fingerprint()


def test_training_and_held_out_images_differ() -> None:
    shapes = Shapes(ShapesSettings(num_train=200, num_eval=200))
    assert not np.array_equal(shapes.load("train").samples, shapes.load("eval").samples)


def test_images_have_the_stated_form() -> None:
    split = Shapes(ShapesSettings(num_eval=301)).load("eval")
    assert split.samples.shape == (301, 3, 32, 32)
    assert split.samples.dtype == np.uint8
    assert set(split.labels.tolist()) == set(range(10))


def test_label_noise_changes_the_stated_share_of_labels_and_no_image() -> None:
    clean = Shapes(ShapesSettings(num_train=4000, label_noise=0.0)).load("train")
    noisy = Shapes(ShapesSettings(num_train=4000, label_noise=0.2)).load("train")
    assert np.array_equal(clean.samples, noisy.samples)
    # A label drawn anew is the old one in a tenth of the cases: 0.2 · 0.9 = 0.18.
    assert abs(np.mean(clean.labels != noisy.labels) - 0.18) < 0.03


def test_a_shapes_middle_is_brighter_than_the_corner() -> None:
    split = Shapes(ShapesSettings(num_train=1000, noise=0.0, label_noise=0.0)).load("train")
    discs = split.samples[split.labels == 0].astype(float)
    assert discs[:, :, 15:17, 15:17].mean() > discs[:, :, :3, :3].mean() + 20
