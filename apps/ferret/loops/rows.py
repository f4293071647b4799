"""Loop of loading: a picture's rows, resampled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apps.ferret.values import Bytes, Floats


def resample_rows(source: Bytes, starts: NDArray[np.int64], sizes: NDArray[np.int64], weights: Floats) -> Bytes:
    """Row x of the result is the weighted sum of source rows from ``starts[x]``. To be compiled."""
    out = np.empty((len(starts), source.shape[1]), np.uint8)
    sums = np.empty(source.shape[1], np.float32)
    for x in range(len(starts)):
        sums[:] = np.float32(0)
        for k in range(sizes[x]):
            for c in range(len(sums)):
                sums[c] += weights[x, k] * np.float32(source[starts[x] + k, c])
        for c in range(len(sums)):
            out[x, c] = np.uint8(min(max(sums[c] + np.float32(0.5), np.float32(0)), np.float32(255)))
    return out
