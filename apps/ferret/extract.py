"""Ferret's extract stage: 14 weighted features of every region, in the single precision of the original."""

from functools import lru_cache
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from apps.ferret.loops.kernels import Kernel
from apps.ferret.loops.regions import Forest
from apps.ferret.values import FEATURES, SIDE, Bytes, Doubles, Floats, Ints

# Ferret's segment stage: Statistical Region Merging (Nock and Nielsen 2004, IEEE TPAMI 26(11), sections 3 and 4).

COMPLEXITY = 128
"""Q of the paper: number of independent random variables in a pixel's value; more give more, smaller regions."""

SMALLEST = 81
"""Minimum pixels of a region; smaller ones are merged into a neighbour: half a per cent, as in the original."""

PIXELS = SIDE * SIDE


def segment(rgb: Bytes, kernel: Kernel) -> NDArray[np.uint16]:
    """Return labels (128, 128) of a picture's regions, numbered from 0 in raster order of their first pixels."""
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
    """Return all pairs of 4-neighbours, the most similar first; equal ones stay in the order of ``neighbour_pairs``."""
    first, second = neighbour_pairs()
    pixels = rgb.reshape(-1, 3).astype(np.int16)
    difference = np.abs(pixels[first] - pixels[second]).max(axis=1).astype(np.uint8)
    order = np.argsort(difference, kind="stable")
    return first[order], second[order]


@lru_cache(maxsize=1)
def neighbour_pairs() -> tuple[Ints, Ints]:
    """Return each pixel with its east, then its south neighbour; pairs of the last column and row come last."""
    grid = np.arange(PIXELS).reshape(SIDE, SIDE)
    inner = grid[:-1, :-1].ravel()
    both = np.stack((inner + 1, inner + SIDE), axis=1).ravel()
    last_column, last_row = grid[:-1, -1], grid[-1, :-1]
    first = np.concatenate((np.repeat(inner, 2), last_column, last_row))
    return first, np.concatenate((both, last_column + SIDE, last_row + 1))


@lru_cache(maxsize=1)
def merge_bounds() -> Doubles:
    """Return by region size s the part of s pixels in the squared difference of means up to which two regions merge.

    It is 256²/(2Q) · (min(256, s)·ln(1 + s) + 2·ln(6N))/s, the paper's merging predicate with its bound on the number
    of regions of one size; entry 0 is not used.
    """
    size = np.arange(PIXELS + 1, dtype=np.float64)
    size[0] = 1.0
    spread = np.minimum(256.0, size) * np.log1p(size) + 2.0 * np.log(6.0 * PIXELS)
    bounds: Doubles = 256.0**2 / (2 * COMPLEXITY) * spread / size
    return bounds


F32 = np.float32
FEATURE_WEIGHTS = np.array([6, 3, 1.5, 4, 2, 1, 4, 2, 1, 0.2, 0.4, 0.04, 0.007, 0.007], F32)
"""Weight of each feature: moments of H, S, V, then ln(aspect), filling, ln(area), row, column."""


def extract(hsv: Bytes, labels: NDArray[np.uint16], kernel: Kernel) -> tuple[Floats, Floats]:
    """Return weights (regions,) and features (regions, 14) of a segmented picture."""
    order = np.argsort(labels.ravel(), kind="stable")  # pixels region by region, in raster order within each
    sizes = np.bincount(labels.ravel())
    pixels = np.split(order, np.cumsum(sizes)[:-1])
    colours = hsv.reshape(-1, 3).astype(F32)
    features = np.empty((len(sizes), FEATURES), F32)
    for row, region in zip(features, pixels, strict=True):
        row[:9] = colour_moments(colours[region]).ravel()
        row[9:] = shape_and_place(region, kernel)
    return region_weights(sizes), features * FEATURE_WEIGHTS


def colour_moments(colours: Floats) -> Floats:
    """Return (3, 3) per channel: mean, standard deviation, signed cube root of the mean cubed deviation, over 255."""
    count = F32(len(colours))
    mean = _sum(colours) / count
    deviation = colours - mean
    variance = _sum(deviation * deviation) / count
    skew = _sum(deviation * deviation * deviation) / count
    spread = np.sqrt(variance.astype(np.float64)) / 255
    lean = np.cbrt(skew.astype(np.float64)) / 255
    return np.stack((mean / F32(255), spread.astype(F32), lean.astype(F32)), axis=1)


def _sum(values: Floats) -> Floats:
    """Return the sums of the columns, added in order like a C loop; numpy's own sum would round differently."""
    total: Floats = np.add.accumulate(values, axis=0)[-1]
    return total


def shape_and_place(pixels: NDArray[np.int64], kernel: Kernel) -> tuple[float, float, float, int, int]:
    """Return ln(width/height), filling and ln(area) of the box, mean row and column; ``pixels`` in raster order."""
    top, bottom, left, right, inside = kernel.grow_box(kernel.sequence(pixels), SIDE)
    height, width = bottom - top + 1, right - left + 1
    rows, columns = pixels // SIDE, pixels % SIDE
    count = len(pixels)
    aspect = log(F32(width) / F32(height))
    return aspect, inside / (width * height), log(width * height), rows.sum() // count, columns.sum() // count


def region_weights(sizes: NDArray[np.int64]) -> Floats:
    """Return square roots of the regions' pixel counts over their sum, which is summed in single precision."""
    total = F32(0)
    for size in sizes.tolist():
        total = F32(float(total) + sqrt(size))
    weights: Floats = (np.sqrt(sizes) * float(F32(1 / float(total)))).astype(F32)
    return weights
