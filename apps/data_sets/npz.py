"""Write npz files of arrays that do not fit into memory."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import numpy as np
from numpy.lib.format import dtype_to_descr, write_array_header_1_0
from numpy.typing import NDArray


class Streamed(NamedTuple):
    """An array that is supplied in pieces, in C order."""

    name: str
    kind: np.dtype[Any]
    shape: tuple[int, ...]
    pieces: Iterable[NDArray[Any]]


def whole(name: str, value: Any) -> Streamed:
    array = np.asarray(value)
    return Streamed(name, array.dtype, array.shape, [array])


def write_npz(place: Path, arrays: Iterable[Streamed]) -> None:
    """Write the same bytes as ``np.savez`` for the same arrays, one piece after the other."""
    with ZipFile(place, "w") as file:
        for name, kind, shape, pieces in arrays:
            with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                header = {"descr": dtype_to_descr(kind), "fortran_order": False, "shape": shape}
                write_array_header_1_0(member, header)
                for piece in pieces:
                    member.write(piece.astype(kind, copy=False).tobytes())
