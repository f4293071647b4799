"""A large array by itself, as a video frame is: told in two words, where its pickle names a function and a class, which
costs ten times as much to write and to read at every hop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from runtime.arena.reference import LARGE_BYTES

_NUMBERS = "biufc"


def is_lone_array(value: object) -> TypeGuard[NDArray[Any]]:
    """Whether ``described`` says all there is to say of it, beside its bytes."""
    return (
        type(value) is np.ndarray
        and value.nbytes >= LARGE_BYTES
        and value.flags.c_contiguous
        and value.dtype.isbuiltin == 1
        and value.dtype.kind in _NUMBERS
    )


def described(array: NDArray[Any]) -> dict[str, Any]:
    """What ``array_of`` needs."""
    return {"dtype": array.dtype.str, "shape": array.shape}


def array_of(description: Mapping[str, Any], frame: Any) -> NDArray[Any]:
    """The array, which shares the memory of the frame. Raises: whatever NumPy raises where the two do not fit."""
    return np.ndarray(description["shape"], description["dtype"], frame)
