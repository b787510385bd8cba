"""Decoding images of any size: colours, depths and orientations, by every library that is installed."""

import subprocess
import sys
import warnings
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from trainmark.data.images import resized
from trainmark.data.images.decode import UnreadableImageError
from trainmark.data.images.decoders import LIBRARIES, PILLOW, decode_image, fastest_library, find_decoder
from trainmark.data.images.draw import draw_picture, figure_of
from trainmark.data.images.headers import Limits, open_image, seen_shape
from trainmark.data.images.resized import Sizing, decode_resized

LIMITS = Limits(smallest_side=8, max_megapixels=400)
ALL = [PILLOW, *LIBRARIES]
# All decode with libjpeg-turbo; versions differ by rounding where colours are subsampled.
TOLERANCE = 2


def picture(width: int = 200, height: int = 120) -> Image.Image:
    return draw_picture(figure_of(0), "photo", width, height, np.random.default_rng(0))


def stored(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def decoded(content: bytes, sizing: Sizing | None = None, library: str | None = PILLOW) -> np.ndarray:
    """Height × width × channels."""
    return decode_resized(content, None, sizing or Sizing(), LIMITS, library).transpose(1, 2, 0)


@pytest.mark.parametrize("library", ALL)
@pytest.mark.parametrize(("options", "mode"), [({"subsampling": 0}, "RGB"), ({"progressive": True}, "RGB"), ({}, "L")])
def test_every_library_decodes_the_same_pixels_as_pillow(library: str, options: dict[str, Any], mode: str) -> None:
    if library != PILLOW and find_decoder(library) is None:
        pytest.skip(f"{library} is not installed")
    content = stored(picture(203, 117).convert(mode), "JPEG", **options)
    with Image.open(BytesIO(content)) as image:
        expected = np.asarray(image.convert("RGB")).astype(int)
    assert np.abs(decoded(content, library=library) - expected).max() <= TOLERANCE


@pytest.mark.parametrize("library", list(LIBRARIES))
def test_a_library_that_is_installed_decodes_by_itself_whatever_pillow_could_do_for_it(library: str) -> None:
    decoder = find_decoder(library)
    if decoder is None:
        pytest.skip(f"{library} is not installed")
    for mode in ("RGB", "L"):
        content = stored(picture(203, 117).convert(mode), "JPEG")
        for shrink, size in ((1, (117, 203)), (2, (59, 102)), (4, (30, 51)), (8, (15, 26))):
            if shrink == 1 or decoder.can_shrink:
                pixels = decoder.decode(content, shrink, size)
                assert pixels.shape == (*size, 3) and pixels.dtype == np.uint8


@pytest.mark.parametrize("library", ALL)
@pytest.mark.parametrize("side", [100, 52, 30, 17])
def test_every_library_resizes_to_the_same_picture(library: str, side: int) -> None:
    if library != PILLOW and find_decoder(library) is None:
        pytest.skip(f"{library} is not installed")
    content = stored(picture(611, 477), "JPEG")
    seen, expected = (decoded(content, Sizing(side), name).astype(int) for name in (library, PILLOW))
    assert seen.shape == (side, round(side * 611 / 477), 3)
    assert np.abs(seen - expected).max() <= TOLERANCE + 1


def test_the_fastest_library_that_is_installed_is_taken() -> None:
    installed = [name for name in LIBRARIES if find_decoder(name) is not None]
    assert fastest_library() == [*installed, PILLOW][0]


def test_decoding_at_a_lower_resolution_shows_the_same_picture() -> None:
    whole = picture(1600, 1000)
    small = decoded(stored(whole, "JPEG", quality=95), Sizing(100)).astype(int)
    expected = np.asarray(whole.resize((160, 100), Image.Resampling.BOX)).astype(int)
    assert small.shape == (100, 160, 3) and np.abs(small - expected).mean() < 4


@pytest.mark.parametrize(("side", "shrink"), [(477, 1), (239, 1), (238, 2), (119, 4), (60, 4), (59, 8), (20, 8)])
def test_jpegs_are_decoded_no_larger_than_needed(monkeypatch: pytest.MonkeyPatch, side: int, shrink: int) -> None:
    asked: list[int] = []

    def spied(image: Any, content: bytes, shrink: int, library: str) -> Any:
        asked.append(shrink)
        return decode_image(image, content, shrink, library)

    monkeypatch.setattr(resized, "decode_image", spied)
    decoded(stored(picture(611, 477), "JPEG"), Sizing(side))
    decoded(stored(picture(611, 477), "PNG"), Sizing(side))
    assert asked == [shrink, 1]


def test_the_part_of_a_block_at_the_edge_is_not_stretched() -> None:
    # 65 pixels are eight blocks and an eighth: 9 pixels when decoded, of which the last counts for an eighth.
    place = np.arange(65)
    pixels = np.stack([*np.meshgrid(3 * place, 3 * place), np.zeros((65, 65))], axis=2).astype(np.uint8)
    seen = decoded(stored(Image.fromarray(pixels), "JPEG", quality=97, subsampling=0), Sizing(8)).astype(float)
    expected = 3 * ((np.arange(8) + 0.5) * 65 / 8 - 0.5)
    assert np.abs(seen[:, :, 0].mean(axis=0) - expected)[1:-1].max() < 2  # at the very edge the filter is cut off
    assert np.abs(seen[:, :, 1].mean(axis=1) - expected)[1:-1].max() < 2


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("side", [None, 40])
def test_images_are_turned_upright(orientation: int, kind: str, side: int | None) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    options: dict[str, Any] = {"subsampling": 0, "quality": 95} if kind == "JPEG" else {}
    content = stored(picture(), kind, exif=exif, **options)
    with Image.open(BytesIO(content)) as image:
        expected = np.asarray(ImageOps.exif_transpose(image))
    assert seen_shape(open_image(BytesIO(content))) == expected.shape[:2]
    if side is None:
        assert np.array_equal(decoded(content), expected)
    else:
        height, width = Sizing(side).seen_of(expected.shape[:2])
        smaller = np.asarray(Image.fromarray(expected).resize((width, height), Image.Resampling.BILINEAR))
        seen = decoded(content, Sizing(side))
        assert seen.shape == smaller.shape and np.abs(seen.astype(int) - smaller).mean() < 3


def test_a_damaged_orientation_is_none() -> None:
    for exif in (b"Exif\0\0", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0nonsense", b"Exif\0\0MM\0*\0\0\0\x08\0\x05"):
        assert decoded(stored(picture(), "PNG", exif=exif[6:] or b"\0")).shape == (120, 200, 3)


def test_damage_that_does_not_matter_prints_nothing() -> None:
    code = (
        "import io, sys\n"
        "from trainmark.data.images.headers import Limits\n"
        "from trainmark.data.images.resized import Sizing, decode_resized\n"
        "decode_resized(sys.stdin.buffer.read(), None, Sizing(), Limits(8, 400))\n"
    )
    content = stored(picture(), "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\x05\0")  # five entries, none of which is there
    ran = subprocess.run([sys.executable, "-c", code], input=content, capture_output=True, check=True)
    assert ran.stderr == b""


def test_sixteen_bits_of_grey_are_scaled_and_not_clipped() -> None:
    values = np.linspace(0, 65535, 120 * 200).reshape(120, 200).astype(np.uint16)
    seen = decoded(stored(Image.fromarray(values)))
    assert np.array_equal(seen, np.repeat((values >> 8).astype(np.uint8)[:, :, None], 3, axis=2))


def test_grey_palettes_transparency_and_cmyk_become_rgb() -> None:
    colour = picture()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        grey = decoded(stored(colour.convert("L")))
        assert np.array_equal(grey[:, :, 0], np.asarray(colour.convert("L"))) and (grey == grey[:, :, :1]).all()
        palette = colour.quantize(16)
        plain = np.asarray(palette.convert("RGB"))
        assert np.array_equal(decoded(stored(palette)), plain)
        assert np.array_equal(decoded(stored(palette, transparency=3)), plain)
        assert np.array_equal(decoded(stored(palette, transparency=bytes(range(0, 160, 10)))), plain)
        see_through = colour.copy()
        see_through.putalpha(7)
        assert np.array_equal(decoded(stored(see_through)), np.asarray(colour))
        assert decoded(stored(colour.convert("1"))).max() == 255
        cmyk = stored(colour.convert("CMYK"), "JPEG", quality=95, subsampling=0)
        assert np.abs(decoded(cmyk, library=None).astype(int) - np.asarray(colour)).mean() < 4


def test_the_content_decides_and_of_animations_the_first_frame() -> None:
    frames = [Image.new("RGB", (60, 40), (value, 0, 0)) for value in (200, 100, 0)]
    for kind in ("GIF", "PNG"):
        content = stored(frames[0], kind, save_all=True, append_images=frames[1:])
        assert (decoded(content)[:, :, 0] == 200).all()


@pytest.mark.parametrize("library", ALL)
@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_truncated_files_are_errors_with_any_library(library: str, share: float) -> None:
    if library != PILLOW and find_decoder(library) is None:
        pytest.skip(f"{library} is not installed")
    for kind in ("JPEG", "PNG"):
        content = stored(picture(), kind)
        with pytest.raises(UnreadableImageError):
            decoded(content[: round(len(content) * share)], library=library)


def test_images_that_pillow_takes_for_bombs_are_decoded_up_to_the_own_limit() -> None:
    # Pillow warns above 89 megapixels and refuses above 179.
    large, larger = stored(Image.new("L", (9600, 9500)), "JPEG"), stored(Image.new("1", (20_000, 10_000)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert decode_resized(large, None, Sizing(95), LIMITS).shape == (3, 95, 96)
        assert seen_shape(open_image(BytesIO(larger))) == (10_000, 20_000)
    with pytest.raises(UnreadableImageError, match=r"too large: 200 megapixels; data\.max_megapixels is 100"):
        decode_resized(larger, None, Sizing(20), Limits(8, 100))


def test_a_narrow_strip_is_not_blown_up_without_limit() -> None:
    content = stored(Image.new("RGB", (20_000, 10)))
    with pytest.raises(UnreadableImageError, match=r"too small: 10 × 20000 pixels; sides must be at least 32"):
        decode_resized(content, None, Sizing(500), Limits(32, 400))
    with pytest.raises(UnreadableImageError, match=r"too large: 500 megapixels once resized"):
        decode_resized(content, None, Sizing(500), LIMITS)
