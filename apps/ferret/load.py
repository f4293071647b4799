"""Ferret's load stage (PARSEC 3): decode, Lanczos resize to 128×128, RGB to HSV.

The arithmetic is that of an image library whose samples have 8 bits and whose reals are single precision, step by
step: then every pixel, and with it every ranking, comes out as the original program's. With sums in double precision
one pixel in some ten thousand falls on the other side of a rounding.
"""

from functools import lru_cache
from math import pi, sin
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from apps.ferret.values import SIDE, Bytes, Floats, Photo
from compositions.errors import RecomposeError

LOBES = 3  # Lanczos-3
EDGE = 1e-6  # keeps a window that ends on a pixel's border from taking the next pixel
F32 = np.float32


def read_photo(path: Path, name: str) -> Photo:
    """Return the picture of a file. Raises: RecomposeError if the file has none."""
    try:
        return decode_photo(path.read_bytes(), name)
    except OSError as error:
        raise RecomposeError(f"photo {path} cannot be read: {error.strerror}") from error


def decode_photo(data: bytes, name: str) -> Photo:
    """Return the picture in the bytes of a JPEG, PNG … file; its EXIF orientation is ignored, as by the original.
    Raises: RecomposeError if OpenCV cannot decode the bytes."""
    import cv2  # OpenCV takes a quarter of a second, which only the source side needs to spend

    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    bgr = cv2.imdecode(np.frombuffer(data, np.uint8), flags) if data else None
    if bgr is None:
        raise RecomposeError(f"{name} cannot be decoded as a picture; give JPEG, PNG, TIFF, WebP, BMP or PPM")
    rgb = resize(np.ascontiguousarray(bgr[:, :, ::-1]))
    return Photo(name, rgb, to_hsv(rgb))


def resize(rgb: Bytes) -> Bytes:
    """Scale (height, width, 3) to (128, 128, 3), antialiased, rounded after each of the two passes. The rows come first
    unless the picture is taller than wide, because rounding makes the order visible."""
    from apps.ferret.loops.compiled import resample  # numba is needed only if pictures are loaded

    height, width = rgb.shape[:2]

    def rows(picture: Bytes) -> Bytes:
        flat = resample(picture.reshape(height, -1), *lanczos_windows(height))
        return np.asarray(flat, np.uint8).reshape(SIDE, -1, 3)

    def columns(picture: Bytes) -> Bytes:
        turned = np.ascontiguousarray(picture.transpose(1, 0, 2)).reshape(width, -1)
        flat = np.asarray(resample(turned, *lanczos_windows(width)), np.uint8)
        return np.ascontiguousarray(flat.reshape(SIDE, -1, 3).transpose(1, 0, 2))

    return rows(columns(rgb)) if height > width else columns(rows(rgb))


@lru_cache(maxsize=256)
def lanczos_windows(length: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Return the start, size and weights (sum 1) of each of 128 windows over ``length`` pixels."""
    factor = F32(SIDE) / F32(length)
    scale = max(F32(1) / factor, F32(1))
    windows = [_window(x, length, factor, scale) for x in range(SIDE)]
    weights = np.zeros((SIDE, max(len(w) for _, w in windows)), F32)
    for row, (_, window) in zip(weights, windows, strict=True):
        row[: len(window)] = window
    return np.array([start for start, _ in windows]), np.array([len(w) for _, w in windows]), weights


def _window(x: int, length: int, factor: np.float32, scale: np.float32) -> tuple[int, Floats]:
    centre, reach, inverse = F32(x + 0.5) / factor, scale * F32(LOBES), F32(1) / scale
    start = int(max(float(centre - reach) - EDGE, 0.0) + 0.5)
    stop = int(min(float(centre + reach), length) + 0.5)
    weights = np.array([_lanczos((F32(i) - centre + F32(0.5)) * inverse) for i in range(start, stop)], F32)
    total = np.add.accumulate(weights)[-1]  # one after the other: a pairwise sum rounds differently
    return start, weights / total


def _lanczos(x: np.float32) -> np.float32:
    distance = abs(float(x))
    return _sinc(distance) * _sinc(float(F32(distance / LOBES))) if distance < LOBES else F32(0)


def _sinc(x: float) -> np.float32:
    return F32(sin(pi * x) / (pi * x)) if x else F32(1)


def to_hsv(rgb: Bytes) -> Bytes:
    """Return hue, saturation and value, all 0..255, each rounded down from single precision. V = max, S = 255·(max −
    min)/max, H = 255·h/6, where h in [0, 6) goes around the usual hexcone."""
    red, green, blue = (rgb[..., channel].astype(F32) for channel in range(3))
    top = np.maximum(np.maximum(red, green), blue)
    spread = top - np.minimum(np.minimum(red, green), blue)
    divisor = np.where(spread == 0, F32(1), spread)
    third = np.where(top == green, F32(2) + (blue - red) / divisor, F32(4) + (red - green) / divisor)
    sector = np.where(top == red, (green - blue) / divisor, third)
    sector = np.where(sector < 0, sector + F32(6), sector)
    hue = np.where(spread == 0, F32(0), F32(255) * sector / F32(6))
    saturation = F32(255) * spread / np.where(top == 0, F32(1), top)
    return np.stack((hue, saturation, top), axis=-1).astype(np.uint8)
