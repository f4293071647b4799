"""Judge runs: does the objective hold in every window, and what did it cost?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lab.gym.model import Floats, windows_of
from lab.gym.player import STEP_S, Run


@dataclass(frozen=True, slots=True)
class Score:
    """Figures of one run."""

    holds: bool
    """True if the share of items in time reached the objective in each window."""
    cost: float
    """Mean cost of the workers alive over the judged time."""
    in_time: float
    """Share of all judged items that were in time."""
    worst_window: float
    """Lowest share of a window."""
    worst_minute: float
    changes_per_h: float
    late: int
    """Number of judged items that were not in time."""


def score_of(run: Run) -> Score:
    """Return the figures of a run."""
    play, windows = run.play, windows_of(run.play)
    judged = windows.of_item >= 0
    in_time = run.latency_s <= play.bound_s
    shares = [float(in_time[windows.of_item == number].mean()) for number in np.flatnonzero(windows.items)]
    minutes = (play.work.due_s[judged] // 60).astype(np.int64)
    counts, good = np.bincount(minutes), np.bincount(minutes, weights=in_time[judged])
    by_minute = good[counts > 0] / counts[counts > 0]
    from_s, end_s = windows.starts_s[0], windows.end_s
    steps = slice(int(from_s / STEP_S), int(end_s / STEP_S))
    changes = sum(from_s <= change.at_s < end_s for change in run.changes)
    return Score(
        holds=run.in_order and all(share >= play.share for share in shares),
        cost=(run.alive_s + STEP_S * float(np.sum(run.extra[steps]))) / windows.judged_s,
        in_time=float(in_time[judged].mean()) if judged.any() else 1.0,
        worst_window=min(shares, default=1.0),
        worst_minute=float(by_minute.min()) if by_minute.size else 1.0,
        changes_per_h=3600 * changes / windows.judged_s,
        late=int((~in_time[judged]).sum()),
    )


def late_by_minute(run: Run) -> Floats:
    """Return the number of late items by the minute in which they were due."""
    late = run.latency_s > run.play.bound_s
    minutes = (run.play.work.due_s // 60).astype(np.int64)
    return np.bincount(minutes, weights=late, minlength=int(run.play.duration_s // 60)).astype(np.float64)
