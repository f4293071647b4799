"""Objectives by metric: the only place that chooses the class for an SLO."""

from collections.abc import Callable, Mapping

from control.objectives.joint import Joint
from control.objectives.latency import Latency, Share
from control.objectives.objective import Objective
from control.objectives.throughput import Fastest, KeepingUp, Throughput
from profiler.slo import FASTEST, INPUT_RATE, Slo
from profiler.snapshot import LatencyFrom

__all__ = ["Objective", "objective_of"]

_BY_METRIC: Mapping[str, Callable[[Slo], Objective]] = {"latency": Latency, "throughput": Throughput}


def objective_of(slo: Slo, latency_from: LatencyFrom = LatencyFrom.READ) -> Objective:
    """Return the objective of ``slo``. If latency counts from the due time and the target is the input rate, a growing
    backlog is a violation, too.

    Raises: KeyError for a metric that ``profiler.slo.validated`` would refuse.
    """
    if slo.also:
        return Joint(slo, tuple(objective_of(each, latency_from) for each in slo.each))
    if slo.target == FASTEST:
        return Fastest(slo)
    if latency_from is LatencyFrom.DUE and slo.target == INPUT_RATE:
        return KeepingUp(slo)
    if slo.statistic == "share":
        return Share(slo)
    return _BY_METRIC[slo.metric](slo)
