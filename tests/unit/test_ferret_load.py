"""Pictures in: resize and colour space, on pictures whose result is known."""

from __future__ import annotations

import colorsys
from pathlib import Path

import cv2
import numpy as np
import pytest

from apps.ferret.load import decode_photo, lanczos_windows, read_photo, resize, to_hsv
from compositions.errors import RecomposeError


@pytest.mark.parametrize("length", [1, 3, 96, 128, 129, 481, 2000])
def test_windows_lie_within_the_picture_and_their_weights_sum_to_one(length: int) -> None:
    starts, sizes, weights = lanczos_windows(length)
    assert starts.min() >= 0
    assert (starts + sizes).max() <= length
    assert weights.sum(axis=1) == pytest.approx(np.ones(128), abs=1e-6)


@pytest.mark.parametrize("shape", [(96, 128), (128, 96), (7, 300), (1, 1)])
def test_a_plain_picture_keeps_its_colour_in_any_shape(shape: tuple[int, int]) -> None:
    resized = resize(np.full((*shape, 3), (10, 200, 255), np.uint8))
    assert resized.shape == (128, 128, 3)
    assert (resized == (10, 200, 255)).all()


def test_a_picture_of_the_right_size_stays_as_it_is() -> None:
    picture = np.random.default_rng(1).integers(0, 256, (128, 128, 3), dtype=np.uint8)
    assert (resize(picture) == picture).all()


def test_resizing_agrees_with_another_lanczos_filter_on_a_smooth_picture() -> None:
    ramp = np.add.outer(np.linspace(0, 120, 128), np.linspace(0, 120, 128))
    picture = np.repeat(ramp[..., None], 3, axis=2).astype(np.uint8)
    larger = cv2.resize(picture, (256, 256), interpolation=cv2.INTER_LANCZOS4)
    inner = (slice(4, -4), slice(4, -4))
    assert np.abs(resize(larger)[inner].astype(int) - picture[inner]).max() <= 1


def test_hsv_agrees_with_the_standard_library() -> None:
    colours = np.random.default_rng(2).integers(0, 256, (500, 3), dtype=np.uint8)
    colours = np.concatenate((colours, [[0, 0, 0], [255, 255, 255], [9, 9, 9]])).astype(np.uint8)
    wanted = np.array([colorsys.rgb_to_hsv(*(colour / 255)) for colour in colours]) * 255
    found = to_hsv(colours[None])[0]
    assert np.abs(found - wanted).max() < 1.001  # rounded down, never up
    assert (found <= wanted + 1e-3).all()


def test_a_photo_read_from_a_file_is_that_picture_in_rgb(tmp_path: Path) -> None:
    bgr = np.zeros((100, 150, 3), np.uint8)
    bgr[..., 0] = 200  # blue in OpenCV's order
    cv2.imwrite(str(tmp_path / "blue.png"), bgr)
    photo = read_photo(tmp_path / "blue.png", "blue.png")
    assert (photo.rgb == (0, 0, 200)).all()
    assert (photo.hsv == (170, 255, 200)).all()


@pytest.mark.parametrize("data", [b"", b"no picture", b"\xff\xd8\xff\xe0broken"])
def test_what_is_no_picture_is_refused_with_a_sentence(data: bytes) -> None:
    with pytest.raises(RecomposeError, match=r"holiday\.jpg is no picture that can be decoded; JPEG, PNG"):
        decode_photo(data, "holiday.jpg")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecomposeError, match=r"gone\.jpg cannot be read: No such file"):
        read_photo(tmp_path / "gone.jpg", "gone.jpg")
