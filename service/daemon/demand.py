"""Ask Ray's autoscaler for the resources that the load of all apps needs, beyond what the cluster has now."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence

import structlog

from compositions.model import Stage
from compositions.resources import Need, need_of
from service.daemon.compositions import Specs
from service.daemon.observation import Observation
from service.daemon.runs import EACH_OF_ALL_S, Runs
from service.schemas.status import Status

log = structlog.get_logger()
BUSY_SHARE = 0.8
"""So much of its time a worker, and a core, is meant to be busy at most."""
KEPT_S = 600.0
"""So long after the load fell, what it needed is still asked for."""
CORE = Need(cpus=1.0)

Wanted = Counter[Need]
"""How many workers with each need; of those that reserve nothing, cores."""


def wanted_by(status: Status, stages: Sequence[Stage]) -> Wanted:
    """Return what the present load of an app needs; nothing before its stages are measured, or if it has no input rate:
    then it takes what there is."""
    offered = status.demand.offered_per_s
    rate = status.input_rate_per_s if offered is None else offered
    measured = {each.name: each for each in status.stages if each.service_time_ms is not None}
    if not rate or len(measured) < len(stages):
        return Wanted()
    heavy = [[stage] for stage in stages if stage.setup == "per-group"]
    light = [stage for stage in stages if stage.setup != "per-group"]
    found = Wanted()
    for held in [*heavy, light]:
        need = need_of(held)
        figures = [measured[stage.name] for stage in held]
        times_ms = [each.service_time_ms if need.is_declared else each.cpu_time_ms for each in figures]
        busy = rate * sum(each or 0.0 for each in times_ms) / 1e3
        found[need if need.is_declared else CORE] += math.ceil(round(busy / BUSY_SHARE, 6))
    return +found


class Demand:
    """Keeps what is asked for in step with the load: more at once, less when less was enough for ``KEPT_S``."""

    def __init__(
        self, request: Callable[[Sequence[Need]], None], observation: Observation, runs: Runs, specs: Specs
    ) -> None:
        """``request`` tells Ray of all workers, in place of those that it was told of before."""
        self._request, self._observation, self._runs, self._specs = request, observation, runs, specs
        self._stages: dict[str, Sequence[Stage]] = {}
        """Of each app with its options, of those that run."""
        self._kept = Kept()
        self._told: Wanted | None = None

    def look(self) -> None:
        """Ask anew if there is a change."""
        before, self._stages = self._stages, {}
        present = Wanted()
        for each in self._runs.all():
            spec = each.desired.spec
            key = f"{spec.app} {spec.options}"
            self._stages[key] = before.get(key) or self._specs.stages(spec)
            present += wanted_by(self._observation.status(spec.app, EACH_OF_ALL_S), self._stages[key])
        wanted = self._kept.at(time.monotonic(), present)
        if wanted != self._told:
            self._request(list(wanted.elements()))
            self._told = wanted
            log.info("asked Ray for nodes", workers={str(need): count for need, count in wanted.items()})


class Kept:
    """The most that was wanted of each kind since less is enough."""

    def __init__(self) -> None:
        self._most: dict[Need, tuple[int, float]] = {}
        """With the time when so much was wanted last."""

    def at(self, now_s: float, present: Wanted) -> Wanted:
        """Return what is to be asked for."""
        for need in {*self._most, *present}:
            count, at_s = self._most.get(need, (0, now_s))
            if present[need] >= count or now_s - at_s > KEPT_S:
                self._most[need] = present[need], now_s
        return +Wanted({need: count for need, (count, _) in self._most.items()})
