"""The source: what drones send, a record each, with the coordinate width that makes a tuple easy or hard."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from apps.military_server.phases import phase_workload, scaled
from apps.military_server.records import COORDINATES, SENT, UNITS, parted
from apps.military_server.terrain import KINDS, SIDE, WIDEST

AT_A_TIME = 4096
"""Records made in one go."""
Widths = NDArray[np.int64]


def phase_widths(tuples: int, narrowest: int, widest: int) -> Widths:
    """The width follows the phases, so that the squares to look at go with its square."""
    return np.rint(narrowest + scaled(phase_workload(), tuples) * (widest - narrowest)).astype(np.int64)


def sent_by_drones(widths: Widths, seed: int) -> Iterator[bytes]:
    """A record for each width, at random places of the map, with random units."""
    chance = np.random.default_rng(seed)
    for start in range(0, len(widths), AT_A_TIME):
        part = widths[start : start + AT_A_TIME]
        records = np.empty(len(part), SENT)
        records["drone"] = np.arange(start, start + len(part))
        records["width"] = part
        records["coordinates"] = chance.integers(WIDEST, SIDE - WIDEST, (len(part), COORDINATES, 2), np.uint16)
        records["kinds"] = chance.integers(0, KINDS, (len(part), UNITS), np.uint8)
        yield from parted(records)
