"""Frames as items: read from a video or from pictures, intact or not."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from apps.video import Frames
from compositions.errors import RecomposeError

Image = NDArray[np.uint8]
PICTURES = (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".webp")


class Frame(NamedTuple):
    """An input frame, height × width × 3, BGR. ``fault`` instead of an image: the reason why it could not be read."""

    number: int
    image: Image
    fault: str = ""


def frames_of(place: Path, height: int) -> Iterator[Frame]:
    """Yield the frames of a video or the pictures in a folder, scaled down to ``height`` rows (0: unscaled)."""
    place = place.expanduser()
    if not place.is_dir():
        return (Frame(number, scaled(image, height)) for number, image in enumerate(Frames(str(place))))
    found = sorted(each for each in place.rglob("*") if each.suffix.lower() in PICTURES and each.is_file())
    return (_read(number, each, height) for number, each in enumerate(found))


def _read(number: int, path: Path, height: int) -> Frame:
    """Read a picture; a file that is no picture becomes a frame with a fault, which fails only its own item."""
    image = cv2.imread(str(path))
    if image is None:
        return Frame(number, np.zeros((1, 1, 3), np.uint8), f"{str(path)!r} is no picture that OpenCV can read")
    return Frame(number, scaled(np.asarray(image, dtype=np.uint8), height))


def intact(frame: Frame) -> Image:
    """Check a frame. Raises: RecomposeError if it could not be read, or has no rows or no colours."""
    if frame.fault:
        raise RecomposeError(frame.fault)
    if frame.image.ndim != 3 or frame.image.shape[2] != 3 or min(frame.image.shape) == 0:
        raise RecomposeError(f"frame {frame.number} has shape {frame.image.shape}; must be height × width × 3")
    return frame.image


def scaled(image: Image, height: int) -> Image:
    """Scale an image down to ``height`` rows if it has more, with the same aspect ratio."""
    rows, columns = image.shape[:2]
    if not height or rows <= height:
        return image
    size = (round(columns * height / rows), height)
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
