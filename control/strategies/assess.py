"""Reading a snapshot against an SLO: is it met, is that the composition's doing, and is there enough to tell?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compositions.model import Stage
from control.settings import Measuring
from profiler.slo import Slo, SloStatus, judge
from profiler.snapshot import Snapshot
from profiler.windows import input_rate_change

_WAITING = 2
"""Items that may wait for admission without being a backlog: what a paced source has at hand between two tasks."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """What a snapshot says about the active composition. Rates in items/s, latency in seconds."""

    status: SloStatus
    """What the user sees: judged on what was delivered."""
    meets: bool | None
    """Whether the composition as such meets the SLO: a backlog it inherited and works off is not held against it."""
    reason: str
    throughput_per_s: float | None = None
    latency_s: float | None = None
    """The SLO's statistic (mean without one); without the wait for admission while a backlog is worked off."""
    saturated: bool = False
    """Something waits: the throughput measured is all that the composition can do."""
    draining: bool = False
    """A backlog shrinks and will be gone soon."""


def assess(slo: Slo | None, snapshot: Snapshot, measuring: Measuring) -> Assessment:
    """The SLO against ``snapshot``, by the significance rule of Vogel et al., section 3.2, step 2."""
    if slo is None:
        return _measured(snapshot, None, SloStatus.NONE, None, "no SLO set")
    if snapshot.switching:
        return Assessment(SloStatus.UNKNOWN, None, "a switch is under way")
    missing = too_few(slo, snapshot, measuring)
    if missing is not None:
        return _measured(snapshot, slo, SloStatus.UNKNOWN, None, missing)
    return _judged(slo, snapshot, measuring)


def too_few(slo: Slo, snapshot: Snapshot, measuring: Measuring) -> str | None:
    """Why ``slo`` cannot be judged on ``snapshot`` yet, or ``None`` when it can."""
    window_s = snapshot.now_s - snapshot.window_start_s
    if window_s < measuring.min_window_s:
        return f"too few samples: the window is {window_s:.1f} of {measuring.min_window_s:g} s long"
    needed = measuring.min_samples if window_s < measuring.patience_s else measuring.patience_samples
    if snapshot.delivered >= needed or _expected(slo, snapshot, window_s) >= needed:
        return None
    return f"too few samples: {snapshot.delivered} of {needed} deliveries in {window_s:.1f} s"


def unprofiled(stages: Sequence[Stage], snapshot: Snapshot, measuring: Measuring) -> str | None:
    """Which stages have too few timings to decide on, or ``None``."""
    patient = snapshot.now_s - snapshot.stable_since_s >= measuring.patience_s
    needed = measuring.patience_samples if patient else measuring.min_samples
    for stage in stages:
        profile = snapshot.stage(stage.name)
        samples = 0 if profile is None else profile.samples
        if samples < needed:
            return f"too few samples: {stage.name} has {samples} of {needed} timings"
    return None


def _expected(slo: Slo, snapshot: Snapshot, window_s: float) -> float:
    """Deliveries that a composition meeting a throughput SLO would have made: too few of them is an answer."""
    bound = slo.bound(snapshot.input_rate_per_s) if slo.metric == "throughput" else None
    return 0.0 if bound is None or not waiting(snapshot) else bound * window_s


def waiting(snapshot: Snapshot) -> bool:
    """Items wait for admission: the composition has all the work it can take."""
    return snapshot.queued > _WAITING


def drained_in_s(snapshot: Snapshot) -> float | None:
    """Time until the backlog is gone at the present pace; ``None`` when there is none or it does not shrink.

    The pace shows in the queue and in what comes out beyond what comes in; either is noisy, so the better one counts.
    """
    change, throughput, rate = snapshot.queued_change_per_s, snapshot.throughput_per_s, snapshot.input_rate_per_s
    surplus = 0.0 if throughput is None or rate is None else throughput - rate
    pace = max(surplus, 0.0 if change is None else -change)
    return snapshot.queued / pace if waiting(snapshot) and change is not None and pace > 0 else None


def current_rate(snapshot: Snapshot) -> float | None:
    """The input rate as of now, items/s: of the last second where that is set or contrasts with the whole window."""
    windows, mean = snapshot.input_rate_windows, snapshot.input_rate_per_s
    if windows and not windows[-1].counted:
        return windows[-1].rate_per_s
    changed = input_rate_change(mean, windows)
    return mean if changed is None else changed


def needed_rate(snapshot: Snapshot) -> float | None:
    """What a composition must be able to take, items/s: a short dip below the window's mean is no relief."""
    known = [rate for rate in (current_rate(snapshot), snapshot.input_rate_per_s) if rate is not None]
    return max(known, default=None)


def _judged(slo: Slo, snapshot: Snapshot, measuring: Measuring) -> Assessment:
    verdict = judge(slo, snapshot.latency, snapshot.throughput_per_s, snapshot.input_rate_per_s)
    if verdict.status is not SloStatus.VIOLATED:
        meets = True if verdict.status is SloStatus.MET else None
        return _measured(snapshot, slo, verdict.status, meets, verdict.reason)
    if slo.metric == "throughput":
        return _short(slo, snapshot, verdict.reason)
    return _late(slo, snapshot, verdict.reason, measuring)


def _short(slo: Slo, snapshot: Snapshot, text: str) -> Assessment:
    """Less than the bound was delivered: the composition's doing only if something waits for it."""
    if waiting(snapshot):
        return _measured(snapshot, slo, SloStatus.VIOLATED, False, text)
    rate, bound = snapshot.input_rate_per_s, slo.bound(snapshot.input_rate_per_s)
    if rate is not None and bound is not None and rate < bound:
        limit = f"{text}, because only {rate:.3g} items/s come in: no composition can deliver more"
        return _measured(snapshot, slo, SloStatus.INFEASIBLE, True, limit)
    return _measured(snapshot, slo, SloStatus.MET, True, f"{text}, but nothing waits: it follows the input")


def _late(slo: Slo, snapshot: Snapshot, text: str, measuring: Measuring) -> Assessment:
    """Too slow: the composition's doing unless it is working off a backlog; then the time inside it counts."""
    left_s = drained_in_s(snapshot)
    if left_s is None or left_s > measuring.backlog_patience_s:
        return _measured(snapshot, slo, SloStatus.VIOLATED, False, text)
    text += f", but a backlog of {snapshot.queued} items is gone in {left_s:.1f} s"
    inside = judge(slo, snapshot.inside, snapshot.throughput_per_s, snapshot.input_rate_per_s)
    meets = True if inside.status is SloStatus.MET else None
    return _measured(snapshot, slo, SloStatus.VIOLATED, meets, text)


def _measured(snapshot: Snapshot, slo: Slo | None, status: SloStatus, meets: bool | None, reason: str) -> Assessment:
    draining = drained_in_s(snapshot) is not None
    source = snapshot.inside if draining else snapshot.latency
    latency_s = None if source is None else source.statistic(slo.statistic if slo else "mean")
    return Assessment(status, meets, reason, snapshot.throughput_per_s, latency_s, waiting(snapshot), draining)
