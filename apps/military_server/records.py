"""Records of the stream: a tuple is one ``bytes`` record of a fixed layout, of another one after each stage.

Records of a bundle laid end to end form a NumPy array without a look at any of them, and are split again as slices.
Plain bytes also cost next to nothing to pickle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

COORDINATES, UNITS, FEATURES = 32, 16, 4
"""Of a tuple: Leonarczyk 2024, section 4.2.1; what is found out about a coordinate is ours."""

Records = NDArray[np.void]
Ints = NDArray[np.int32]

_PLACES = ("at", "u2", (UNITS, 2))
MISSION = np.dtype(
    [("drone", "i8"), ("width", "u2"), ("coordinates", "u2", (COORDINATES, 2)), ("kinds", "u1", (UNITS,))]
)
"""Where a drone looks around, columns and rows, how far, and which kinds of units it has to place."""
SENT = MISSION.newbyteorder(">")
"""As drones send it: in network byte order."""
EXPLORED = np.dtype([*MISSION.descr, ("features", "u2", (COORDINATES, FEATURES))])
PLACED = np.dtype([("drone", "i8"), _PLACES, ("penalties", "u4", (UNITS,))])
CHECKED = np.dtype([*PLACED.descr, ("fit", "u1")])
STORED = np.dtype([("drone", "i8"), ("fit", "u1"), _PLACES])


def joined(values: Sequence[bytes], layout: np.dtype[np.void]) -> Records:
    """The records of a bundle as one array. Raises: ValueError when one of them has another length."""
    if set(map(len, values)) != {layout.itemsize}:
        wrong = next((len(value) for value in values if len(value) != layout.itemsize), 0)
        raise ValueError(f"a record of {wrong} bytes; must be {layout.itemsize}")
    return np.frombuffer(b"".join(values), layout)


def parted(records: Records) -> list[bytes]:
    """Each record by itself."""
    data, size = records.tobytes(), records.itemsize
    return [data[start : start + size] for start in range(0, len(data), size)]


def filled(layout: np.dtype[np.void], source: Records, **fields: NDArray[Any]) -> Records:
    """Records with ``fields``; what else ``layout`` has comes from ``source``."""
    records = np.empty(len(source), layout)
    for name in layout.names or ():
        records[name] = fields[name] if name in fields else source[name]
    return records
