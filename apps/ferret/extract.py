"""Ferret's extract stage: 14 weighted features of every region, in the single precision of the original."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from apps.ferret.loops.kernels import Kernel
from apps.ferret.values import FEATURES, SIDE, Bytes, Floats

F32 = np.float32
FEATURE_WEIGHTS = np.array([6, 3, 1.5, 4, 2, 1, 4, 2, 1, 0.2, 0.4, 0.04, 0.007, 0.007], F32)
"""How much each feature counts: moments of H, S, V, then ln(aspect), filling, ln(area), row, column."""


def extract(hsv: Bytes, labels: NDArray[np.uint16], kernel: Kernel) -> tuple[Floats, Floats]:
    """Weights (regions,) and features (regions, 14) of a segmented picture."""
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
    """(3, 3) per channel: mean, standard deviation, signed cube root of the mean cubed deviation, all over 255."""
    count = F32(len(colours))
    mean = _sum(colours) / count
    deviation = colours - mean
    variance = _sum(deviation * deviation) / count
    skew = _sum(deviation * deviation * deviation) / count
    spread = np.sqrt(variance.astype(np.float64)) / 255
    lean = np.cbrt(skew.astype(np.float64)) / 255
    return np.stack((mean / F32(255), spread.astype(F32), lean.astype(F32)), axis=1)


def _sum(values: Floats) -> Floats:
    """Sums down the columns one after the other, as a C loop does; numpy's own sum would round differently."""
    total: Floats = np.add.accumulate(values, axis=0)[-1]
    return total


def shape_and_place(pixels: NDArray[np.int64], kernel: Kernel) -> tuple[float, float, float, int, int]:
    """ln(width/height) and filling and ln(area) of the box, mean row and mean column; ``pixels`` in raster order."""
    top, bottom, left, right, inside = kernel.grow_box(kernel.sequence(pixels), SIDE)
    height, width = bottom - top + 1, right - left + 1
    rows, columns = pixels // SIDE, pixels % SIDE
    count = len(pixels)
    aspect = log(F32(width) / F32(height))
    return aspect, inside / (width * height), log(width * height), rows.sum() // count, columns.sum() // count


def region_weights(sizes: NDArray[np.int64]) -> Floats:
    """Square roots of the regions' pixel counts over their sum, which is kept in single precision as it grows."""
    total = F32(0)
    for size in sizes.tolist():
        total = F32(float(total) + sqrt(size))
    weights: Floats = (np.sqrt(sizes) * float(F32(1 / float(total)))).astype(F32)
    return weights
