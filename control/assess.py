"""Assess a snapshot against an objective: is it met, is the composition responsible, and are there enough samples?"""

from collections.abc import Sequence
from dataclasses import dataclass

from compositions.model import Stage
from compositions.wording import figure
from control.objectives.objective import Objective, Ruling
from control.reading import drained_in_s, held_s, stalled_s, waiting
from control.settings import Measuring
from profiler.slo import SloStatus
from profiler.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Assessment:
    """The assessment of the active composition by a snapshot. Rates in items/s, latency in seconds."""

    status: SloStatus
    """Status for the user, based on the delivered items."""
    meets: bool | None
    """True if the composition by itself meets the SLO, apart from a backlog that it inherited; None: unknown."""
    reason: str
    throughput_per_s: float | None = None
    latency_s: float | None = None
    """The SLO's statistic (mean without one); while a backlog shrinks, without the wait for admission."""
    draining: bool = False
    """True if there is a backlog and it shrinks."""

    @classmethod
    def unknown(cls, reason: str) -> "Assessment":
        """Return an assessment without a result."""
        return cls(SloStatus.UNKNOWN, None, reason)


def assess(objective: Objective | None, snapshot: Snapshot, measuring: Measuring) -> Assessment:
    """Assess ``snapshot`` against the objective by the significance rule of Vogel et al., section 3.2, step 2."""
    if objective is None:
        return _measured(snapshot, None, Ruling(SloStatus.NONE, None, "no SLO set"))
    if snapshot.switching:
        return Assessment.unknown("a switch is under way")
    return _measured(snapshot, objective.quantile, _ruling(objective, snapshot, measuring))


def stalled(objective: Objective, snapshot: Snapshot) -> str | None:
    """Return the reason if the stream stalls: items wait or are in work, and none has been delivered for longer than
    stage times explain and the objective allows. ``None`` if it does not."""
    still_s, asked = stalled_s(snapshot), objective.asked_per_s(snapshot.input_rate_per_s)
    allowed_s = max(objective.wanted_s or 0.0, 3 / asked if asked else 0.0)
    if still_s is None or still_s <= allowed_s:
        return None
    there = snapshot.backlog + snapshot.in_flight
    return f"no item was delivered for {still_s:.0f} s, with {there} items waiting or in work"


def _ruling(objective: Objective, snapshot: Snapshot, measuring: Measuring) -> Ruling:
    silent = stalled(objective, snapshot)
    if silent is not None:
        return Ruling(SloStatus.VIOLATED, None, silent)
    missing = too_few(objective, snapshot, measuring)
    if missing is not None:
        return Ruling(SloStatus.UNKNOWN, None, missing)
    verdict = objective.judge(snapshot.latency, snapshot.throughput_per_s, snapshot.input_rate_per_s)
    if verdict.status is SloStatus.VIOLATED:
        return objective.whose_doing(snapshot, verdict.reason, measuring.backlog_patience_s)
    overrun = objective.overrun(snapshot) if verdict.status is SloStatus.MET else None
    if overrun is not None:
        whole_window = held_s(snapshot) >= snapshot.now_s - snapshot.window_start_s
        return Ruling(SloStatus.VIOLATED, False if whole_window else None, overrun)
    shown = verdict.status is SloStatus.MET and verdict.bound is not None  # without a bound, nothing can be proved
    return Ruling(verdict.status, True if shown else None, verdict.reason)


def too_few(objective: Objective, snapshot: Snapshot, measuring: Measuring) -> str | None:
    """Return the reason if ``snapshot`` has too few samples to judge ``objective``, else ``None``."""
    window_s = snapshot.now_s - snapshot.window_start_s
    if window_s < measuring.min_window_s:
        needed_s = figure(measuring.min_window_s, 6)
        return f"no verdict on the objective yet: measured for {window_s:.1f} s of {needed_s} s that are needed"
    needed = measuring.min_samples if window_s < measuring.patience_s else measuring.patience_samples
    if snapshot.delivered >= needed or _asked(objective, snapshot, window_s) >= needed:
        return None
    delivered = f"{snapshot.delivered} of the required {needed} deliveries"
    return f"no verdict on the objective yet: {delivered} in {window_s:.1f} s"


def unsure(stages: Sequence[Stage], snapshot: Snapshot, measuring: Measuring) -> str | None:
    """Return the reason if a stage has too few timings for a decision, else ``None``."""
    patient = snapshot.now_s - snapshot.stable_since_s >= measuring.patience_s
    needed = measuring.patience_samples if patient else measuring.min_samples
    for stage in stages:
        profile = snapshot.stage(stage.name)
        samples = 0 if profile is None else profile.samples
        if samples < needed:
            return f"too few samples: {stage.name} has {samples} of {needed} needed timings"
    return None


def _asked(objective: Objective, snapshot: Snapshot, window_s: float) -> float:
    """Return the number of deliveries that meet the objective: with items waiting, fewer deliveries are a miss."""
    asked_per_s = objective.asked_per_s(snapshot.input_rate_per_s)
    return 0.0 if asked_per_s is None or not waiting(snapshot) else asked_per_s * window_s


def _measured(snapshot: Snapshot, quantile: float | None, ruling: Ruling) -> Assessment:
    draining = drained_in_s(snapshot) is not None
    source = snapshot.inside if draining else snapshot.latency
    latency_s = None if source is None else source.at(quantile)
    return Assessment(ruling.status, ruling.meets, ruling.reason, snapshot.throughput_per_s, latency_s, draining)
