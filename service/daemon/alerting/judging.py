"""Whether a rule speaks of an app. Pure: a state and what is seen in, the next state out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from compositions.wording import figure
from control.decisions import State
from profiler.slo import SloStatus
from service.bodies.alerts import BacklogRule, ObjectiveRule, Rule
from service.bodies.status import Status

MISSED = {SloStatus.VIOLATED: "violated", SloStatus.INFEASIBLE: "out of reach"}


@dataclass(frozen=True, slots=True)
class Judged:
    """Of one rule and one app."""

    since_s: float | None = None
    """Since when it has been as the rule says; None: it is not."""
    raised: bool = False
    told: str = ""
    known_restarts: tuple[int, int] | None = None
    """Of workers and runners, when it was last looked."""
    restarts: tuple[tuple[float, int], ...] = ()
    """When there were some, and how many."""


def after(rule: Rule, judged: Judged, status: Status, now_s: float) -> Judged:
    """``now_s``: seconds of any steady clock."""
    if isinstance(rule, ObjectiveRule):
        return _lasting(judged, _objective(status), rule.for_s, now_s)
    if isinstance(rule, BacklogRule):
        waits = status.queued > rule.above
        told = f"{status.queued:,} items wait, which is more than {rule.above:,}" if waits else ""
        return _lasting(judged, told, rule.for_s, now_s)
    counted = _counted(judged, status, now_s, rule.within_s)
    count = sum(number for _, number in counted.restarts)
    restarts = f"{count:,} {'restart' if count == 1 else 'restarts'}"
    told = f"{restarts} within {figure(rule.within_s, 6)} s, which is more than {rule.above:,}"
    return _lasting(counted, told if count > rule.above else "", 0.0, now_s)


def _objective(status: Status) -> str | None:
    """What is wrong; empty where nothing is, None where nobody knows."""
    if status.state is State.FAILED:
        return "it has failed"
    if status.slo_status in MISSED:
        return f"its objective is {MISSED[status.slo_status]}"
    return None if status.slo_status is SloStatus.UNKNOWN and status.state is not State.STOPPED else ""


def _lasting(judged: Judged, told: str | None, for_s: float, now_s: float) -> Judged:
    """Raised once it has been so for as long; over as soon as it is not so."""
    if told is None:
        return judged
    if not told:
        return replace(judged, since_s=None, raised=False)
    since_s = now_s if judged.since_s is None else judged.since_s
    raised = judged.raised or now_s - since_s >= for_s
    lasts = f" for {figure(for_s, 6)} s" if for_s else ""
    return replace(judged, since_s=since_s, raised=raised, told=told if judged.raised else told + lasts)


def _counted(judged: Judged, status: Status, now_s: float, within_s: float) -> Judged:
    """A runner that begins anew counts its workers' restarts from 0."""
    workers_before, runners_before = judged.known_restarts or (status.restarts or 0, status.runner_restarts)
    workers = workers_before if status.restarts is None else status.restarts
    more = max(0, workers - workers_before) + max(0, status.runner_restarts - runners_before)
    kept = tuple(each for each in judged.restarts if now_s - each[0] < within_s)
    counted = (*kept, (now_s, more)) if more else kept
    return replace(judged, known_restarts=(workers, status.runner_restarts), restarts=counted)
