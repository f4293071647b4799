"""What travels between Ferret's stages: small tuples of numpy arrays, cheap to pickle out of band."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
    """A file that is no picture: the first stage refuses it with ``reason``, so it becomes a dead letter."""

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
