"""What is expected of a switch, what came of it, and what is learned from that for the next one."""

from __future__ import annotations

from dataclasses import dataclass

from compositions.model import Composition
from control.journal import Journal, SwitchRecord
from control.output_gaps import OutputGaps
from profiler.drain import DrainEstimator
from profiler.drain_kinds import Conditions, DrainSample, InFlight
from profiler.service_time import stage_costs
from profiler.size_law import SizeLaws
from profiler.snapshot import Snapshot
from runtime.dispatch.outcomes import SwitchEnded, TaskTimed
from runtime.dispatch.views import DispatcherView


@dataclass(frozen=True, slots=True)
class Expected:
    """Of the switch that begins, seconds; of the drain None where too little is known."""

    drain_mean_s: float | None
    drain_bound_s: float | None
    first_result_s: float
    """How long the new composition takes from its first item in to its first result out."""


class Handovers:
    """Drain estimates and output gaps; every switch is entered in the journal."""

    def __init__(self, journal: Journal, cores: int, drain_sample: DrainSample) -> None:
        self.drain = DrainEstimator()
        self.gaps = OutputGaps()
        self._journal = journal
        self._cores = cores
        self._drain_sample = drain_sample
        self._sizes = SizeLaws()
        self._record = SwitchRecord(None, None)

    def note_size(self, task: TaskTimed) -> None:
        """What the size of a payload tells of the time it takes."""
        stages = tuple(timing.stage for timing in task.timings)
        each_s = sum(timing.wall_s for timing in task.timings) / task.items
        self._sizes.add(stages, task.size_bytes // task.items, each_s)

    def sample(self, view: DispatcherView, snapshot: Snapshot) -> None:
        """How long a drain would take that began now; not during one."""
        if not view.switching:
            now = self._conditions(snapshot)
            self.drain.sample(self._drain_sample.sample(_left(view), now) if now and view.in_flight else None)

    def begin(self, composition: Composition, view: DispatcherView, snapshot: Snapshot) -> Expected:
        """A switch to ``composition`` begins."""
        now = self._conditions(snapshot)
        sample_s = self._drain_sample.at_switch(_left(view), now) if now and view.in_flight else None
        expected = self.drain.begin(sample_s)
        mean_s, bound_s = (expected.srtt_s, expected.bound_s) if expected else (None, None)
        self._record = SwitchRecord(mean_s, bound_s)
        self.gaps.switch_begins(self._record)
        costs = stage_costs(snapshot.stages, self._cores)
        work_s = snapshot.bundle_items * sum(cost.service_s for cost in costs.values())
        return Expected(mean_s, bound_s, work_s + snapshot.hop_s * len(composition.groups))

    def end(self, ended: SwitchEnded) -> None:
        """The switch is over; after one that failed the estimates go on."""
        self.drain.end(ended.drain_actual_s)
        self._journal.record_switch(self._record, ended)
        self.gaps.switch_ended()
        if ended.error is None:
            self.drain.restart()

    def _conditions(self, snapshot: Snapshot) -> Conditions | None:
        """Those under which items are drained; None where too little is known."""
        if not snapshot.stages:
            return None
        costs = stage_costs(snapshot.stages, self._cores)
        return Conditions(costs, self._cores, snapshot.hop_s, self._sizes, self.drain.calibration)


def _left(view: DispatcherView) -> InFlight:
    return InFlight(view.composition, view.in_flight, view.pending)
