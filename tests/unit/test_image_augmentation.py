"""Crops, mirrors and colours: the arithmetic written out, and what decoding makes of it."""

import math
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from trainmark.data.images.decode import UnreadableImageError, decode_fully, decode_view
from trainmark.data.images.draw import draw_picture, figure_of
from trainmark.data.images.views import (
    RATIOS,
    Box,
    ColourChange,
    View,
    centre_square,
    change_colours,
    decoding_shrink,
    random_box,
    random_colours,
    random_view,
    widest_box,
)

SIDES = st.integers(1, 3000)
SEEDS = st.integers(1, 2**62)


class Drawn:
    """A generator whose draws are written out."""

    def __init__(self, *uniform: float, place: tuple[int, int] = (0, 0)) -> None:
        self.uniforms = list(uniform)
        self.place = np.array(place)

    def uniform(self, low: float, high: float) -> float:
        drawn = self.uniforms.pop(0)
        assert low <= drawn <= high
        return drawn

    def integers(self, low: int, high: tuple[int, int]) -> np.ndarray:
        assert low == 0 and all(self.place < high)
        return self.place


def photo(width: int, height: int, seed: int = 0) -> Image.Image:
    return draw_picture(figure_of(3), "photo", width, height, np.random.default_rng(seed))


def whole(width: int, height: int) -> View:
    return View(Box(0, 0, width, height))


@pytest.mark.parametrize(
    ("draws", "place", "box"),
    [
        # √(400 · 300 · 0.5) = 244.9
        ((0.5, 0.0), (10, 20), Box(10, 20, 245, 245)),
        # 30,000 pixels of 4:3: √40,000 across, √22,500 down
        ((0.25, math.log(4 / 3)), (200, 150), Box(200, 150, 200, 150)),
        # all of it as 3:4 would be 400 down, more than there is; the second try is taken
        ((1.0, math.log(3 / 4), 0.25, math.log(3 / 4)), (0, 0), Box(0, 0, 150, 200)),
    ],
)
def test_a_random_crop_follows_from_the_area_and_ratio_drawn(
    draws: tuple[float, ...], place: tuple[int, int], box: Box
) -> None:
    assert random_box(400, 300, Drawn(*draws, place=place)) == box  # type: ignore[arg-type]


def test_after_ten_tries_that_do_not_fit_the_widest_crop_in_the_middle_is_taken() -> None:
    draws = Drawn(*[1.0, 0.0] * 10)
    # Squares of 1000 · 300 pixels are 548 high; in the middle 4:3 of height 300 is 400 wide.
    assert random_box(1000, 300, draws) == Box(300, 0, 400, 300)  # type: ignore[arg-type]
    assert draws.uniforms == []


def test_the_widest_crop_of_an_upright_image_is_three_wide_and_four_high() -> None:
    assert widest_box(300, 1000) == Box(0, 300, 300, 400)
    assert widest_box(400, 390) == Box(0, 0, 400, 390)


@given(SIDES, SIDES, SEEDS)
def test_a_random_crop_lies_inside_and_keeps_to_its_ranges(width: int, height: int, seed: int) -> None:
    box = random_box(width, height, np.random.default_rng(seed))
    assert box.left >= 0 and box.top >= 0 and box.width >= 1 and box.height >= 1
    assert box.left + box.width <= width and box.top + box.height <= height
    # Sides were rounded by at most half a pixel.
    most_width, least_height = box.width + 0.5, box.height - 0.5
    assert most_width * (box.height + 0.5) >= 0.08 * width * height or box == widest_box(width, height)
    assert most_width / least_height >= RATIOS[0]
    assert (box.width - 0.5) / (box.height + 0.5) <= RATIOS[1]


def test_areas_of_random_crops_are_spread_evenly() -> None:
    random = np.random.default_rng(1)
    shares = [box.width * box.height / 1e6 for box in (random_box(1000, 1000, random) for _ in range(4000))]
    # Shares are drawn evenly from 0.08 to 1, but large ones fit only if nearly square, so fewer than half exceed 0.54.
    assert 0.08 <= min(shares) < 0.09
    assert abs(np.mean(np.array(shares) < 0.31) - 0.25) < 0.06


def test_the_evaluation_crop_of_a_known_size() -> None:
    # 224/256 of 375 is 328.125; (500 − 328.125) / 2 and (375 − 328.125) / 2 are left over.
    assert centre_square(500, 375, 224 / 256) == Box(85.9375, 23.4375, 328.125, 328.125)


@pytest.mark.parametrize(
    ("width", "height", "shrink"), [(447, 900, 1), (448, 448, 2), (895, 2000, 2), (896, 896, 4), (1792, 5000, 8)]
)
def test_decoding_shrinks_only_while_the_crop_keeps_enough_pixels(width: int, height: int, shrink: int) -> None:
    assert decoding_shrink(Box(0, 0, width, height), 224) == shrink


@given(SIDES, SIDES, SEEDS)
def test_a_view_is_the_same_for_the_same_draws_and_mirrors_half_the_time(width: int, height: int, seed: int) -> None:
    for augmentation in ("crop", "crop-colour"):
        first, again = (random_view(augmentation, width, height, np.random.default_rng(seed)) for _ in range(2))
        assert first == again
        assert (first.colours is not None) == (augmentation == "crop-colour")


def test_half_of_the_views_are_mirrored() -> None:
    random = np.random.default_rng(2)
    mirrored = [random_view("crop", 50, 40, random).is_mirrored for _ in range(2000)]
    assert abs(np.mean(mirrored) - 0.5) < 0.05


def test_mirroring_twice_gives_the_image_back(tmp_path: Path) -> None:
    path = tmp_path / "a.JPEG"
    photo(120, 90).save(path)
    plain = decode_view(path.read_bytes(), 64, whole)
    mirrored = decode_view(
        path.read_bytes(), 64, lambda width, height: View(Box(0, 0, width, height), is_mirrored=True)
    )
    assert np.array_equal(mirrored[:, :, ::-1], plain)
    assert not np.array_equal(mirrored, plain)


def test_decoding_a_small_version_agrees_with_decoding_all_and_shrinking_that(tmp_path: Path) -> None:
    photo(1300, 1000).save(tmp_path / "a.JPEG", quality=90)
    Image.open(tmp_path / "a.JPEG").save(tmp_path / "a.png")  # the same pixels, which no decoder can shrink
    box = Box(31, 57, 1111, 923)
    assert decoding_shrink(box, 224) == 4
    small, full, beside = (
        decode_view((tmp_path / name).read_bytes(), 224, lambda *_, box=box: View(box)).astype(int)
        for name, box in (("a.JPEG", box), ("a.png", box), ("a.png", box._replace(left=box.left + 4)))
    )
    difference = np.abs(small - full).mean()
    # The filters differ: on a grainy picture by up to 2 of 256 levels on average; a pixel beside it would be far more.
    assert difference < 2
    assert abs((small - full).mean()) < 0.1
    assert np.abs(small - beside).mean() > 2 * difference


def test_cmyk_and_grey_become_rgb(tmp_path: Path) -> None:
    Image.new("RGB", (80, 60), (200, 30, 60)).convert("CMYK").save(tmp_path / "cmyk.JPEG", quality=95)
    Image.new("L", (80, 60), 77).save(tmp_path / "grey.JPEG", quality=95)
    cmyk, grey = (decode_view((tmp_path / name).read_bytes(), 16, whole) for name in ("cmyk.JPEG", "grey.JPEG"))
    assert cmyk.shape == grey.shape == (3, 16, 16)
    assert np.abs(cmyk.astype(int) - np.array([200, 30, 60])[:, None, None]).max() <= 4
    assert np.abs(grey.astype(int) - 77).max() <= 1


def test_the_orientation_in_exif_is_ignored(tmp_path: Path) -> None:
    pixels = np.zeros((40, 80, 3), np.uint8)
    pixels[:, 40:] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    Image.fromarray(pixels).save(tmp_path / "a.JPEG", exif=exif)
    seen = decode_view((tmp_path / "a.JPEG").read_bytes(), 8, whole)
    assert seen[:, :, :3].max() < 20 and seen[:, :, 5:].min() > 235


JPEG = BytesIO()
photo(64, 48).save(JPEG, "JPEG")
PNG = BytesIO()
photo(16, 12).save(PNG, "PNG")


@given(
    st.sampled_from([JPEG.getvalue(), PNG.getvalue()]),
    st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 255)), max_size=6),
    st.integers(0, 5000),
)
def test_bad_bytes_are_a_reason_and_never_another_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, changes: list[tuple[int, int]], length: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "changed"
    changed = bytearray(content)
    for place, value in changes:
        changed[place % len(changed)] = value
    path.write_bytes(changed[:length])
    for decode in (decode_fully, lambda path: decode_view(path.read_bytes(), 8, whole)):
        try:
            decode(path)
        except UnreadableImageError as error:
            assert str(error)


def flat(*colour: int) -> Image.Image:
    return Image.new("RGB", (4, 4), colour)  # type: ignore[arg-type]


def test_brightness_multiplies_and_stops_at_white() -> None:
    assert change_colours(flat(100, 10, 240), ColourChange(brightness=1.2)).getpixel((0, 0)) == (120, 12, 255)


def test_contrast_moves_values_away_from_the_mean_grey() -> None:
    image = flat(50, 50, 50)
    image.paste((150, 150, 150), (0, 0, 2, 4))  # half of it: the mean is 100
    changed = change_colours(image, ColourChange(contrast=1.4))
    assert (changed.getpixel((0, 0)), changed.getpixel((3, 0))) == ((170, 170, 170), (30, 30, 30))


def test_saturation_moves_values_towards_the_grey_of_their_pixel() -> None:
    # 0.299 · 200 + 0.587 · 30 + 0.114 · 60 = 84.25
    assert change_colours(flat(200, 30, 60), ColourChange(saturation=0.0)).getpixel((0, 0)) == (84, 84, 84)
    assert change_colours(flat(200, 30, 60), ColourChange(to_grey=True)).getpixel((0, 0)) == (84, 84, 84)
    # Half way: (84 + 200) / 2, (84 + 30) / 2, (84 + 60) / 2
    assert change_colours(flat(200, 30, 60), ColourChange(saturation=0.5)).getpixel((0, 0)) == (142, 57, 72)


def test_a_third_of_a_turn_makes_red_green() -> None:
    red, green, blue = change_colours(flat(255, 0, 0), ColourChange(hue_shift=1 / 3)).getpixel((0, 0))  # type: ignore[misc]
    assert red <= 4 and green >= 251 and blue <= 4


def test_a_change_of_nothing_changes_nothing_and_the_order_of_steps_matters() -> None:
    image = photo(40, 30)
    assert change_colours(image, ColourChange()) == image
    steps = {order: ColourChange(1.4, 0.6, 1.4, 0.2, order) for order in ((0, 1, 2, 3), (3, 2, 1, 0))}
    first, second = (change_colours(image, step) for step in steps.values())
    assert first != second


def test_random_colours_keep_to_their_ranges() -> None:
    random = np.random.default_rng(3)
    changes = [random_colours(random) for _ in range(3000)]
    for name in ("brightness", "contrast", "saturation"):
        factors = [getattr(change, name) for change in changes]
        assert 0.6 <= min(factors) < 0.61 and 1.39 < max(factors) <= 1.4
    turns = [change.hue_shift for change in changes]
    assert -0.4 <= min(turns) < -0.39 and 0.39 < max(turns) <= 0.4
    assert len({change.order for change in changes}) == 24  # 4!
    assert abs(np.mean([change.to_grey for change in changes]) - 0.1) < 0.03
