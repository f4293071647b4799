"""Port the autoscaler of actor pools of Ray Data: policy ``ray-data``.

Source: Ray 2.60, ``ray.data._internal.actor_autoscaler`` (the default there is ``BacklogAwareActorAutoscaler``, which
differs from ``DefaultActorAutoscaler`` in the number that it adds) and ``ray.data.context`` (thresholds 1.75 and 0.5,
two tasks in flight for each call that an actor may run at a time), ``ActorPoolMapOperator`` (10 s without fewer actors
after more). Utilization is tasks in flight divided by actors, pending ones included. At 1.75 or more the pool grows so
that all tasks in flight or enqueued would make 1.75; at 0.5 or less it loses one actor, unless one is pending. This
port omits budgets of resources and object store memory, actors without a task (a pool removes no other). Our choices: a
task has one item, where Ray's have a block of rows; the loop runs with our turns of 0.25 s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from lab.gym.policies.port import Given, Measured, Policy, Replicas, StageNow

_EXACT = 1e-9


@dataclass(frozen=True, slots=True)
class RayDataSettings:
    """The defaults of Ray 2.60."""

    up: float = 1.75
    """The pool grows at this utilization."""
    down: float = 0.5
    """It shrinks at this utilization."""
    in_flight: int = 2
    """Tasks that an actor has at a time: one in work, the others in its queue."""
    down_delay_s: float = 10.0
    """After more actors the pool does not shrink for this time."""
    backlog_aware: bool = True
    """The pool grows for enqueued tasks as well; else only for those in flight, as by ``DefaultActorAutoscaler``."""


PUBLISHED = RayDataSettings()


class RayData(Policy):
    """One actor pool for each stage."""

    def __init__(self, given: Given, settings: RayDataSettings = PUBLISHED) -> None:
        self._settings = settings
        self._workers = given.workers
        self._grown_s = dict.fromkeys(given.stages, -math.inf)
        self._now: Measured | None = None

    def observe(self, measured: Measured) -> None:
        self._now = measured

    def decide(self) -> Replicas:
        if self._now is None:
            return {}
        at_s = self._now.at_s
        asked = {stage.name: self._replicas(stage, at_s) for stage in self._now.stages}
        changed = {stage.name: asked[stage.name] for stage in self._now.stages if asked[stage.name] != stage.replicas}
        self._grown_s.update({s.name: at_s for s in self._now.stages if asked[s.name] > s.replicas})
        return changed

    def _replicas(self, stage: StageNow, at_s: float) -> int:
        settings, size = self._settings, stage.replicas
        in_flight = min(stage.waiting, settings.in_flight * stage.ready)
        utilization = in_flight / size
        if utilization >= settings.up:
            tasks = stage.waiting if settings.backlog_aware else in_flight
            grown = max(size + 1, math.ceil(tasks / settings.up - _EXACT))
            return max(size, min(self._workers, grown))
        calm = stage.ready >= size and at_s - self._grown_s[stage.name] >= settings.down_delay_s
        return size - 1 if utilization <= settings.down and calm and size > 1 else size
