"""Values that travel between Ferret's stages, small tuples of numpy arrays; and the photos they come from."""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from compositions.errors import RecomposeError

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm"})


def list_photos(place: Path) -> list[tuple[str, Path]]:
    """Return (name, path) of a photo, or of all photos in a folder and its subfolders, in the order of their paths.

    A photo's name is its file name, or its path within the folder if several have the same file name. Raises:
    RecomposeError if there is no photo.
    """
    if place.is_file():
        return [(place.name, place)]
    if not place.is_dir():
        raise RecomposeError(f"{str(place)!r} does not exist; give a folder of photos, or one photo")
    paths = sorted(path for path in place.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    if not paths:
        raise RecomposeError(f"folder {str(place)!r} has no photos; give one with {', '.join(sorted(SUFFIXES))} files")
    times = Counter(path.name for path in paths)
    return [(path.name if times[path.name] == 1 else path.relative_to(place).as_posix(), path) for path in paths]


SIDE = 128
"""Pixels along both sides of every picture that is compared; the original ignores the aspect."""

FEATURES = 14
"""Features of a region: nine colour moments, three of its box's shape, two of its place."""

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]


class Photo(NamedTuple):
    """A query as it leaves the source: ``rgb`` and ``hsv`` are (128, 128, 3), 0..255."""

    name: str
    rgb: Bytes
    hsv: Bytes


class Unreadable(NamedTuple):
    """A file that is not a picture: the first stage raises ``reason``, so the item becomes a dead letter."""

    name: str
    reason: str


class Regions(NamedTuple):
    """``labels`` (128, 128) uint16 numbers the regions from 0 in the order a raster scan meets them."""

    name: str
    hsv: Bytes
    labels: NDArray[np.uint16]


class Signature(NamedTuple):
    """``weights`` (regions,) sum to 1; ``features`` (regions, 14)."""

    name: str
    weights: Floats
    features: Floats


class Candidates(NamedTuple):
    """A signature and the database images, ascending numbers, that share a near region with it; numbers are those of
    one version of the database."""

    signature: Signature
    images: Ints
    version: int = 0


class Ranking(NamedTuple):
    """The nearest images, nearest first: (image name, Earth Mover's Distance)."""

    query: str
    matches: tuple[tuple[str, float], ...]
