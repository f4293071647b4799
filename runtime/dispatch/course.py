"""Which pipelines there are now: the active one, which takes new items, and beside it the one that drains."""

from __future__ import annotations

from collections.abc import Sequence

from compositions.model import Composition, Stage
from runtime.dispatch.bundle import Bundle
from runtime.dispatch.phases import Awaiting, Draining, Phase, Preparing
from runtime.dispatch.pipeline import Pipeline


class Course:
    """``phase`` of the switch under way; None while there is none."""

    def __init__(self, stages: Sequence[Stage], composition: Composition, prefetch_below_s: float) -> None:
        self.stages = tuple(stages)
        self.active = Pipeline(composition, self.stages, prefetch_below_s)
        self.phase: Phase | None = None

    @property
    def draining(self) -> Pipeline | None:
        return self.phase.pipeline if isinstance(self.phase, Draining) else None

    @property
    def pipelines(self) -> tuple[Pipeline, ...]:
        """All that have items, the oldest first."""
        phase = self.phase
        return (phase.pipeline, self.active) if isinstance(phase, Draining) else (self.active,)

    @property
    def workers_wanted(self) -> int:
        """By the active composition, and by the one that waits for its workers."""
        wanted = self.active.composition.workers
        return max(wanted, self.phase.request.composition.workers) if isinstance(self.phase, Awaiting) else wanted

    def may_feed(self, now_s: float) -> bool:
        """Whether the active pipeline may take new items now."""
        phase = self.phase
        return phase is None or phase.may_feed(now_s)

    def hand_over(self, phase: Preparing, now_s: float, drain_limit_s: float) -> None:
        """Makes the prepared composition the active one; the old one drains."""
        old = self.active
        self.active = Pipeline(phase.request.composition, self.stages, old.prefetch_below_s)
        self.active.inherit_busy(old)
        self.phase = Draining.begin(phase.request, old, now_s, drain_limit_s)

    def migrate(self, bundle: Bundle) -> Pipeline:
        """Books a bundle of the draining pipeline over to the active one."""
        assert isinstance(self.phase, Draining), "items are migrated during a drain"
        self.phase.pipeline.in_flight -= 1
        self.active.in_flight += 1
        self.phase.migrated += bundle.count
        bundle.composition = self.active.composition.name
        return self.active
