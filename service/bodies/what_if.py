"""The body of ``GET /what-if/{app}``, from what ``control.what_if`` found."""

from __future__ import annotations

from math import isfinite

from compositions.capacity.prediction import Prediction
from compositions.model import Composition
from control.contention import StageTime as Measured
from control.what_if import Option, Outlook
from service.bodies.base import ms, rounded
from service.bodies.compositions import ActiveComposition, Possibility, StageTime, WhatIf

SHOWN = 500
"""Rows in an answer; what is left out is counted."""


def what_if_body(app: str, found: Outlook) -> WhatIf:
    return WhatIf(
        app=app,
        cores=found.cores,
        replicas=found.question.replicas,
        input_rate_per_s=found.input_rate_per_s,
        choice=found.chosen,
        reason=found.reason,
        compositions=[_possibility(option) for option in found.options[:SHOWN]],
        left_out=max(len(found.options) - SHOWN, 0),
        crowding=rounded(found.crowding),
        stages=[_stage(each) for each in found.stages],
    )


def _stage(told: Measured) -> StageTime:
    times = {"service_time_ms": told.measured_s, "free_time_ms": told.free_s, "cpu_time_ms": told.cpu_s}
    return StageTime(name=told.name, **{name: round(value * 1e3, 3) for name, value in times.items()})


def _possibility(option: Option) -> Possibility:
    composition, told = option.composition, option.prediction
    return Possibility(
        predicted_throughput_per_s=rounded(told.throughput_per_s) if told else None,
        predicted_latency_ms=_finite_ms(told.latency_s) if told else None,
        predicted_p95_ms=_finite_ms(told.p95_s) if told else None,
        overloaded=told.overloaded if told else None,
        limited_by=_limits(composition, told) if told else None,
        meets=option.meets,
        active=option.active,
        throughput_per_s_range=_rates(option),
        latency_ms_range=_latencies(option),
        **dict(ActiveComposition.of(composition)),
    )


def _rates(option: Option) -> tuple[float, float] | None:
    worst, best = option.worst, option.best
    return (
        None if worst is None or best is None else (round(worst.throughput_per_s, 4), round(best.throughput_per_s, 4))
    )


def _latencies(option: Option) -> tuple[float, float | None] | None:
    least_ms = _finite_ms(option.best.latency_s) if option.best else None
    return None if least_ms is None or option.worst is None else (least_ms, _finite_ms(option.worst.latency_s))


def _limits(composition: Composition, told: Prediction) -> list[str]:
    return ["cores"] if told.limited_by == "cores" else list(composition.groups[told.bottleneck_group].stages)


def _finite_ms(seconds: float | None) -> float | None:
    return ms(seconds) if seconds is not None and isfinite(seconds) else None
