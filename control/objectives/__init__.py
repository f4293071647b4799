"""Objectives by metric: the one place that asks which one an SLO means."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from control.objectives.latency import Latency
from control.objectives.objective import Objective
from control.objectives.throughput import Throughput
from profiler.slo import Slo

__all__ = ["Objective", "objective_of"]

_BY_METRIC: Mapping[str, Callable[[Slo], Objective]] = {"latency": Latency, "throughput": Throughput}


def objective_of(slo: Slo) -> Objective:
    """What ``slo`` asks for. Raises: KeyError for a metric that ``profiler.slo.validated`` would refuse."""
    return _BY_METRIC[slo.metric](slo)
