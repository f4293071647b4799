"""The load of an app before its runner was started again, from telemetry: what a season foretells is not forgotten."""

from __future__ import annotations

from pathlib import Path
from time import time

import numpy as np

from control.forecast.load.bins import BIN_S, KEPT, Array
from service.bodies.spec import RunSpec

_ENOUGH = 20
"""Bins below which there is nothing to learn from."""


def past_load(spec: RunSpec) -> Array:
    """Items/s in each bin of the last ten minutes until now, oldest first; none of a run that begins, or whose
    telemetry is not written. What came last may not have been written before its runner died: NaN."""
    if spec.started_again is None or spec.telemetry is None:
        return np.zeros(0)
    from datapipe.telemetry.arrivals import arrivals_between  # imported here: most runs need no Arrow

    now_s = time()
    counts = arrivals_between(Path(spec.telemetry.folder), spec.app, now_s - KEPT * BIN_S, now_s, BIN_S)
    rates = np.trim_zeros(counts, "f") / BIN_S  # what is before its first item is no lull
    if len(rates) < _ENOUGH:
        return np.zeros(0)
    return np.concatenate((rates, np.full(KEPT - len(counts), np.nan)))
