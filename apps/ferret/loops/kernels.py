"""Ferret's inner loops at two speeds from one source: plain Python (``exact``) or compiled by numba (``fast``)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

from apps.ferret.loops import emd, regions

KernelName = Literal["exact", "fast"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """Loops over flat sequences; ``sequence`` converts a numpy array to their form: a list, or the array itself."""

    sequence: Callable[[Any], Any] = np.ndarray.tolist
    merge_similar: Callable[..., None] = regions.merge_similar
    absorb_small: Callable[..., None] = regions.absorb_small
    number_regions: Callable[..., None] = regions.number_regions
    grow_box: Callable[..., tuple[int, int, int, int, int]] = emd.grow_box
    distances: Callable[..., None] = emd.distances


@cache
def load_kernel(name: KernelName) -> Kernel:
    """Return the kernel of that name; numba, which takes half a second to import, is imported for ``fast`` only."""
    if name == "exact":
        return Kernel()
    from apps.ferret.loops import compiled

    return Kernel(np.ascontiguousarray, **compiled.LOOPS)
