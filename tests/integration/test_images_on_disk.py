"""Training on image files as a user does it: generated folders, any number of readers, faults named."""

import json
from pathlib import Path

import pytest

from tests.conftest import Command
from tests.run_events import losses_of

# A small model on small images, so that little but reading takes time.
SMALL = [
    *("--members", "1", "--workers", "1", "--set", "model=resnet-tiny", "--set", "launch.threads=1"),
    *("--set", "train.epochs=2", "--set", "train.batch_size=16", "--set", "measure.ceiling=false", "--json"),
]

IMAGENET = [*SMALL, "--set", "data.image_size=32"]


@pytest.fixture
def pictures(warm_trainmark: Command, tmp_path: Path) -> Path:
    few = ("--set", "num_train=60", "--set", "num_eval=20", "--set", "num_classes=5")
    made = warm_trainmark("data", "make", "imagenet", "-o", "pictures", *few)
    assert made.returncode == 0, made.stderr
    return tmp_path / "pictures"


def test_losses_are_the_same_for_any_number_of_readers(warm_trainmark: Command, tmp_path: Path, pictures: Path) -> None:
    losses = []
    for readers in (0, 2):
        done = warm_trainmark(
            *("run", "--set", "dataset=imagenet", "--set", f"data.path={pictures}", *IMAGENET),
            *("--set", "train.augmentation=crop", "--set", f"launch.loader_workers={readers}"),
        )
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert result["metrics"]["data_wait_share"]["value"] > 0
        losses.append(losses_of(tmp_path / "runs" / result["run_id"]))
    assert losses[0] == losses[1] and len(losses[0]) >= 4


def test_a_full_run_on_a_small_folder_says_in_its_result_that_these_are_not_imagenet(
    warm_trainmark: Command, pictures: Path
) -> None:
    done = warm_trainmark("run", "--size", "full", "--set", f"data.path={pictures}", *IMAGENET)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    unlike = [
        *("5 classes, not 1,000", "60 training samples, not 1,281,167", "20 held-out samples, not 50,000"),
        "images of 3 × 32 × 32, not 3 × 224 × 224",
    ]
    assert result["warnings"][0].startswith(
        f"NOT the data of image-classification in size full: {'; '.join(unlike)}. Quality and VFLOPS cannot be compared"
    )
    assert result["provenance"]["data"]["unlike_the_size"] == unlike


def test_an_image_that_is_cut_off_is_named_by_the_run_and_by_check(warm_trainmark: Command, pictures: Path) -> None:
    broken = sorted(pictures.glob("train/*/*.JPEG"))[7]
    broken.write_bytes(broken.read_bytes()[:2000])
    run = ("run", "--set", "dataset=imagenet", "--set", f"data.path={pictures}", *IMAGENET)
    done = warm_trainmark(*run, "--set", "train.augmentation=crop", "--set", "ensemble.bootstrap=none")
    assert done.returncode == 1
    assert str(broken) in done.stderr and "trainmark data check" in done.stderr
    checked = warm_trainmark("data", "check", "imagenet", str(pictures), "--json")
    assert checked.returncode == 1
    assert [problem["file"] for problem in json.loads(checked.stdout)["problems"]] == [str(broken)]


@pytest.mark.parametrize(
    ("dataset", "settings"),
    [
        ("cifar10", ["train.augmentation=flip-shift"]),
        ("pacs", ["train.augmentation=crop-colour", "data.image_size=32"]),
    ],
)
def test_generated_files_are_learned_from(warm_trainmark: Command, dataset: str, settings: list[str]) -> None:
    few = [f"dataset={dataset}", "data.num_train=100", "data.num_eval=50", *settings]
    done = warm_trainmark("run", *SMALL, *(word for setting in few for word in ("--set", setting)))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["metrics"]["quality_ensemble"]["value"] is not None


def test_bad_artworks_are_named_by_the_run_listed_by_check_and_left_out_on_request(
    warm_trainmark: Command, tmp_path: Path
) -> None:
    few = ("num_train=40", "num_eval=8", "mean_megapixels=0.01")
    made = warm_trainmark("data", "make", "artworks", "-o", "art", *(word for each in few for word in ("--set", each)))
    assert made.returncode == 0, made.stderr
    spoilt = [tmp_path / "art" / "data" / name for name in ("1000003.jpg", "1000017.jpg", "2000005.jpg")]
    for path, content in zip(spoilt, (b"", spoilt[1].read_bytes()[:900], b"no image"), strict=True):
        path.write_bytes(content)
    run = ("run", "artworks", *SMALL, "--set", "data.path=art", "--set", "data.input=lr", "--set", "data.side=32")
    done = warm_trainmark(*run, "--set", "ensemble.bootstrap=none")
    assert done.returncode == 2 and not any((tmp_path / "runs").glob("*-artworks-*"))
    assert str(spoilt[0]) in done.stderr and "trainmark data check" in done.stderr
    checked = warm_trainmark("data", "check", "artworks", "art", "--skip-list", "bad.txt")
    assert checked.returncode == 1
    assert [line.partition(",")[0] for line in checked.stdout.splitlines()[:3]] == [
        str(path.relative_to(tmp_path)) for path in spoilt
    ]
    assert "3 problems" in checked.stdout and "3 names in bad.txt" in checked.stdout
    assert (tmp_path / "bad.txt").read_text().split() == [f"data/{path.name}" for path in spoilt]
    done = warm_trainmark(*run, "--set", "data.skip=bad.txt")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    data = result["provenance"]["data"]
    assert (data["num_train"], data["num_eval"], data["num_skipped"]) == (38, 7, 3)
    assert f"3 samples left out by data.skip={tmp_path / 'bad.txt'}" in result["warnings"]


def test_a_dataset_without_skip_lists_says_so(warm_trainmark: Command) -> None:
    refused = warm_trainmark("data", "check", "cifar10", "nowhere", "--skip-list", "bad.txt")
    assert refused.returncode == 2
    assert "Samples of cifar10 cannot be left out: only artworks, imagenet have data.skip." in refused.stderr
