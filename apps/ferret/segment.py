"""Ferret's segment stage: Statistical Region Merging (Nock and Nielsen 2004, IEEE TPAMI 26(11), sections 3 and 4)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from apps.ferret.loops.kernels import Kernel
from apps.ferret.loops.regions import Forest
from apps.ferret.values import SIDE, Bytes, Doubles, Ints

COMPLEXITY = 128
"""Q of the paper: how many independent random variables make a pixel's value; more gives more, smaller regions."""

SMALLEST = 81
"""Regions of fewer pixels are merged into a neighbour: half a per cent of the picture, the original's choice."""

PIXELS = SIDE * SIDE


def segment(rgb: Bytes, kernel: Kernel) -> NDArray[np.uint16]:
    """Labels (128, 128) of the regions of a picture, numbered from 0 in raster order of their first pixels."""
    first, second = sorted_pairs(rgb)
    channels = [kernel.sequence(rgb[..., c].ravel().astype(np.float64)) for c in range(3)]
    roots = kernel.sequence(np.arange(PIXELS))
    ranks, sizes = kernel.sequence(np.zeros(PIXELS, np.int64)), kernel.sequence(np.ones(PIXELS, np.int64))
    forest = Forest(roots, ranks, sizes, *channels)
    kernel.merge_similar(kernel.sequence(first), kernel.sequence(second), kernel.sequence(merge_bounds()), forest)
    kernel.absorb_small(SIDE, SMALLEST, forest)
    labels = kernel.sequence(np.zeros(PIXELS, np.int64))
    kernel.number_regions(roots, kernel.sequence(np.full(PIXELS, -1)), labels)
    return np.array(labels, np.uint16).reshape(SIDE, SIDE)


def sorted_pairs(rgb: Bytes) -> tuple[Ints, Ints]:
    """All pairs of 4-neighbours, most similar first; equal ones stay in the order of ``neighbour_pairs``."""
    first, second = neighbour_pairs()
    pixels = rgb.reshape(-1, 3).astype(np.int16)
    difference = np.abs(pixels[first] - pixels[second]).max(axis=1).astype(np.uint8)
    order = np.argsort(difference, kind="stable")
    return first[order], second[order]


@lru_cache(maxsize=1)
def neighbour_pairs() -> tuple[Ints, Ints]:
    """Each pixel with its east, then its south neighbour; the last column's and the last row's pairs come last."""
    grid = np.arange(PIXELS).reshape(SIDE, SIDE)
    inner = grid[:-1, :-1].ravel()
    both = np.stack((inner + 1, inner + SIDE), axis=1).ravel()
    last_column, last_row = grid[:-1, -1], grid[-1, :-1]
    first = np.concatenate((np.repeat(inner, 2), last_column, last_row))
    return first, np.concatenate((both, last_column + SIDE, last_row + 1))


@lru_cache(maxsize=1)
def merge_bounds() -> Doubles:
    """Entry s: what a region of s pixels adds to the squared difference of means up to which two regions merge.

    256²/(2Q) · (min(256, s)·ln(1 + s) + 2·ln(6N))/s, the paper's merging predicate with its bound on the number of
    regions of one size; entry 0 is not used.
    """
    size = np.arange(PIXELS + 1, dtype=np.float64)
    size[0] = 1.0
    spread = np.minimum(256.0, size) * np.log1p(size) + 2.0 * np.log(6.0 * PIXELS)
    bounds: Doubles = 256.0**2 / (2 * COMPLEXITY) * spread / size
    return bounds
