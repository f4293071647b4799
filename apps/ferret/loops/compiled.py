"""Ferret's loops compiled by numba. Importing this costs half a second, a first call reads the machine code from disk.

The code is kept beside the sources or, where those cannot be written, in the user's cache folder (numba's own rule);
only the very first run on a machine compiles, for some seconds. No ``fastmath``: it would change the answers.
The loops run without the interpreter's lock, so that several threads build a database.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload, register_jitable
from numpy.typing import NDArray

from apps.ferret.loops import emd, regions
from apps.ferret.values import Bytes, Floats


def resample_rows(source: Bytes, starts: NDArray[np.int64], sizes: NDArray[np.int64], weights: Floats) -> Bytes:
    """Fill row x of the result with the weighted sum of source rows from ``starts[x]``. To be compiled."""
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


for helper in (regions.find, regions.unite, emd.ground_distances, emd.shares, emd.transport_cost, emd.cheapest_path,
               emd.relax, emd.nearest, emd.reprice, emd.send):  # fmt: skip
    register_jitable(helper)


overload(emd.zeros)(lambda count: lambda count: np.full(count, 0.0))
overload(emd.unset)(lambda count: lambda count: np.full(count, -1))


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no folder for machine code: every process compiles for itself
        return njit(nogil=True)(function)


resample = _compiled(resample_rows)

LOOPS = {
    loop.__name__: _compiled(loop)
    for loop in (regions.merge_similar, regions.absorb_small, regions.number_regions, emd.grow_box, emd.distances)
}
"""Loops by name, for ``Kernel``."""
