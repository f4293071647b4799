"""Other circumstances, the same profile: what would every composition do, and which would the manager choose?"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from math import isfinite

from compositions.capacity.costs import Conditions
from compositions.capacity.predict import predict_all
from compositions.capacity.prediction import Prediction
from compositions.model import Composition, Group, Pattern
from control.decisions import Trigger
from control.settings import Settings
from control.strategies.assess import Assessment
from control.strategies.base import Proposal, Situation, Stay, Strategy
from profiler.service_time import stage_costs
from profiler.slo import Slo, SloStatus
from profiler.snapshot import Snapshot
from service.bodies.base import ms, rounded
from service.bodies.compositions import ActiveComposition, Possibility, WhatIf

SHOWN = 500
"""Rows in an answer; what is left out is counted."""


@dataclass(frozen=True, slots=True)
class Question:
    """``None`` means: as it is now."""

    cores: int | None = None
    replicas: int | None = None
    """Of every group that is parallel."""
    rate_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Present:
    """What is known of the running app."""

    snapshot: Snapshot
    active: Composition
    compositions: tuple[Composition, ...]
    slo: Slo | None
    strategy: Strategy
    settings: Settings


def answer(question: Question, present: Present, app: str) -> WhatIf:
    """The body of ``GET /what-if/{app}``: those that meet the SLO first, then by workers and latency."""
    snapshot = _changed(present.snapshot, question)
    choices = tuple(_resized(each, question.replicas) for each in present.compositions)
    active = _resized(present.active, question.replicas)
    missing = next((stage for stage in active.stages if snapshot.stage(stage) is None), None)
    if missing is not None:
        chosen, reason = None, f"nothing has been measured of {missing} yet"
        rows = [_row(each, None, present.slo, None, each.name == active.name) for each in choices]
    else:
        now = replace(present, snapshot=snapshot, compositions=choices, active=active)
        chosen, reason = _choice(now)
        rows = sorted(_predicted(now), key=_rank)
    return WhatIf(
        app=app,
        cores=snapshot.cores,
        replicas=question.replicas,
        input_rate_per_s=snapshot.input_rate_per_s,
        choice=chosen,
        reason=reason,
        compositions=rows[:SHOWN],
        left_out=max(len(rows) - SHOWN, 0),
    )


def _predicted(present: Present) -> list[Possibility]:
    snapshot, choices, rate = present.snapshot, present.compositions, present.snapshot.input_rate_per_s
    costs = stage_costs(snapshot.stages, snapshot.cores)
    found = predict_all(choices, costs, Conditions(snapshot.cores, snapshot.hop_s, rate))
    active = present.active.name
    return [_row(each, told, present.slo, rate, each.name == active) for each, told in zip(choices, found, strict=True)]


def _changed(snapshot: Snapshot, question: Question) -> Snapshot:
    rate = question.rate_per_s if question.rate_per_s is not None else snapshot.input_rate_per_s
    return replace(
        snapshot,
        cores=question.cores or snapshot.cores,
        input_rate_per_s=rate,
        input_rate_windows=() if question.rate_per_s is not None else snapshot.input_rate_windows,
        queued=0,
        queued_change_per_s=None,
    )


def _resized(composition: Composition, replicas: int | None) -> Composition:
    if replicas is None:
        return composition
    return replace(composition, groups=tuple(_with(group, replicas) for group in composition.groups))


def _with(group: Group, replicas: int) -> Group:
    return replace(group, replicas=replicas) if group.pattern is Pattern.PAR else group


def _choice(present: Present) -> tuple[str | None, str]:
    """What the app's own strategy, with all that it has learned, would do first."""
    if present.slo is None:
        return None, "no SLO is set, so there is nothing to choose by"
    unknown = Assessment(SloStatus.UNKNOWN, None, "nothing is measured under these circumstances")
    situation = Situation(
        Trigger.INPUT_RATE,
        present.snapshot,
        present.slo,
        unknown,
        present.active,
        present.compositions,
        present.settings,
    )
    strategy = copy.copy(present.strategy)
    strategy.prepare(present.compositions)
    proposal: Proposal = strategy.propose(situation, ())
    name = present.active.name if isinstance(proposal, Stay) else proposal.composition.name
    return name, proposal.reason


def _row(
    composition: Composition, told: Prediction | None, slo: Slo | None, rate: float | None, active: bool
) -> Possibility:
    return Possibility(
        predicted_throughput_per_s=rounded(told.throughput_per_s) if told else None,
        predicted_latency_ms=_finite_ms(told.latency_s) if told else None,
        predicted_p95_ms=_finite_ms(told.p95_s) if told else None,
        overloaded=told.overloaded if told else None,
        limited_by=_limits(composition, told) if told else None,
        meets=_meets(told, slo, rate) if told else None,
        active=active,
        **dict(ActiveComposition.of(composition)),
    )


def _limits(composition: Composition, told: Prediction) -> list[str]:
    return ["cores"] if told.limited_by == "cores" else list(composition.groups[told.bottleneck_group].stages)


def _finite_ms(seconds: float | None) -> float | None:
    return ms(seconds) if seconds is not None and isfinite(seconds) else None


def _meets(told: Prediction, slo: Slo | None, rate: float | None) -> bool | None:
    bound = slo.bound(rate) if slo else None
    if slo is None or bound is None:
        return None
    if slo.metric == "throughput":
        return told.throughput_per_s >= bound
    latency_s = told.statistic(slo.statistic)
    return None if latency_s is None else latency_s * 1e3 <= bound


def _rank(row: Possibility) -> tuple[bool, int, float]:
    latency = row.predicted_latency_ms
    return row.meets is False, row.workers, float("inf") if latency is None else latency
