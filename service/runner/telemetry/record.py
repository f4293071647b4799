"""Record a run while it is in progress: its clock, samples, summary and telemetry."""

from __future__ import annotations

import pickle
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from compositions.model import Loads, held_by, loads_of
from compositions.resources import Need, need_of
from compositions.wording import figure
from control.manager import TickResult
from control.objectives import Objective
from profiler.slo import SloHits, SloStatus, Verdict
from profiler.snapshot import Snapshot
from runtime.dispatch.views import WorkerView
from service.runner.telemetry.accounts import Usage, WallClock, version_of_app
from service.runner.wiring.run import Run
from service.schemas.base import ms, rounded
from service.schemas.results import CheckedItems, Reached, Summary
from service.schemas.spec import RunSpec
from service.schemas.status import Sample, Status

PERIOD_S = 1.0
KEPT_S = 3600
PACKED = 60
"""Number of samples that are compressed together: an hour takes some 0.3 MB instead of 15, and 0.1 s to read."""


class History:
    """A ring of samples of bounded size; times are seconds of the caller's clock."""

    def __init__(self) -> None:
        self._packs: deque[tuple[float, bytes]] = deque(maxlen=-(-int(KEPT_S / PERIOD_S) // PACKED))
        """Compressed packs of samples, each with the time of its last sample."""
        self._recent: list[tuple[float, Sample]] = []
        self._due_s = float("-inf")

    def record(self, now_s: float, sample: Callable[[], Sample]) -> None:
        """Take a sample if one is due."""
        if now_s < self._due_s:
            return
        on_time = now_s - self._due_s < PERIOD_S
        self._due_s = (self._due_s if on_time else now_s) + PERIOD_S
        self._recent.append((now_s, sample()))
        if len(self._recent) == PACKED:
            self._packs.append((now_s, zlib.compress(pickle.dumps(self._recent))))
            self._recent = []

    def since(self, at_s: float) -> list[Sample]:
        """Return samples taken at ``at_s`` or later, oldest first."""
        found = [sample for taken_s, sample in self._samples(at_s) if taken_s >= at_s]
        return found[-int(KEPT_S / PERIOD_S) :]

    def _samples(self, at_s: float) -> Iterator[tuple[float, Sample]]:
        for last_s, pack in self._packs:
            if last_s >= at_s:
                yield from pickle.loads(zlib.decompress(pack))
        yield from self._recent


if TYPE_CHECKING:
    from service.runner.telemetry.telemetry import Telemetry


class RunningSummary:
    """The summary of a run, updated at each tick."""

    def __init__(self) -> None:
        self._hits = SloHits()
        self._used: list[str] = []
        self._first_s: float | None = None
        self._last: Snapshot | None = None

    @property
    def slo_met_share(self) -> float | None:
        """Return the share of the seconds with a verdict in which the SLO was met."""
        return rounded(self._hits.time_share)

    def record(self, snapshot: Snapshot, result: TickResult) -> bool:
        """Record the last tick; return False if it was recorded before."""
        if snapshot is self._last:
            return False
        self._last = snapshot
        self._first_s = snapshot.now_s if self._first_s is None else self._first_s
        if snapshot.composition not in self._used:
            self._used.append(snapshot.composition)
        met = SloStatus.VIOLATED if result.slo_status is SloStatus.INFEASIBLE else result.slo_status
        self._hits.add_second(snapshot.now_s, Verdict(met, "as of the tick"))
        return True

    def view(self, run: Run, failure: str | None) -> Summary:
        view, journal, sink, last = run.loop.engine.view(), run.loop.journal, run.sink, self._last
        elapsed_s = last.now_s - self._first_s if last and self._first_s is not None else None
        return Summary.taken_from(
            *(run.intake.demand(), sink),
            app=run.checked.spec.app,
            run=run.checked.spec.origin.run,
            elapsed_s=rounded(elapsed_s),
            objectives=_reached(run.loop.manager.objective, last),
            items=CheckedItems(lost=sink.lost, misordered=sink.misordered, **dict(run.items)),
            composition=view.composition.name,
            compositions_used=list(self._used),
            bundle_sizes=list(run.bundling.runs.used),
            switches=journal.switch_count,
            decisions=len(journal.decisions),
            settle_s=[round(decision.duration_s, 3) for decision in journal.decisions],
            throughput_per_s=rounded(_throughput_per_s(run)),
            latency_ms=ms(last.latency.mean_s) if last and last.latency else None,
            slo_met_share=self.slo_met_share,
            slo_status=run.loop.result.slo_status if run.loop.result else None,
            workers=view.composition.workers,
            failure=failure,
        )


def _reached(objective: Objective | None, last: Snapshot | None) -> list[Reached]:
    """Return the values reached in the last window, one for each objective."""
    latency = last.latency if last else None
    found = []
    for part in objective.parts if objective is not None else ():
        value = part.value(last.throughput_per_s if last else None, latency.at(part.quantile) if latency else None)
        told = "not measured" if value is None else part.described(value)
        if part.slo.statistic == "share" and latency and (within := latency.within(part.wanted_s or 0.0)) is not None:
            told = f"{figure(100 * within, 4)} % of the items; {told}"
        found.append(Reached(objective=part.slo.asked, value=told))
    return found


def _throughput_per_s(run: Run) -> float | None:
    """Return the throughput without the start and without the time after the last result."""
    began_s, last_s = run.intake.began_s, run.sink.last_s
    if began_s is None or last_s is None or last_s <= began_s:
        return None
    return run.items.delivered / (last_s - began_s)


class Record:
    """The records of a run; belong to the loop's thread."""

    def __init__(self, clock: WallClock, telemetry: Telemetry | None = None) -> None:
        self.clock, self.telemetry = clock, telemetry
        self.history = History()
        self.summary = RunningSummary()
        self.usage = Usage()

    def record(self, run: Run, status: Callable[[], Status]) -> None:
        """Record the changes after a step; ``status`` is called if a sample is due."""
        loop = run.loop
        result, snapshot = loop.result, loop.snapshot
        if result is None or snapshot is None:
            return
        if run.intake.reading:
            now_s = monotonic()
            self.history.record(now_s, lambda: Sample.of(status(), self.clock.text(now_s)))
        if self.summary.record(snapshot, result):
            workers = loop.engine.view().workers
            self.usage.record(snapshot.now_s, workers, _held(run, workers) if run.checked.spec.pool == "ray" else ())
            run.sink.flush()
            if self.telemetry is not None:
                self.telemetry.tick(loop, snapshot, result)
                self.telemetry.accounts.see(run, self.usage, snapshot.now_s, snapshot.cores)

    def close(self) -> None:
        if self.telemetry is not None:
            self.telemetry.close()


def _held(run: Run, workers: Sequence[WorkerView]) -> Iterator[tuple[Loads, Need]]:
    """Yield each worker's class and need. Workers without a group belong to the class that loads no stage."""
    stages, groups = run.checked.stages, run.loop.engine.view().composition.groups
    by_name = {stage.name: stage for stage in stages}
    for each in workers:
        loads = () if each.group is None else loads_of(by_name[name] for name in groups[each.group].stages)
        yield loads, need_of(held_by(stages, loads))


def record_of(spec: RunSpec, run: Run) -> Record:
    """Return the record of a run, with telemetry if it is to be written."""
    clock = WallClock.now()
    if spec.ending.telemetry is None:
        return Record(clock)
    from datapipe.telemetry.writer import Origin  # imported here: a run without telemetry does not need Arrow
    from service.runner.telemetry.telemetry import Telemetry

    assert spec.origin.run is not None, "a runner has given it a name"
    lineage = (spec.app, spec.origin.run, spec.origin.epoch, version_of_app(type(run.checked.app)))
    telemetry = Telemetry(spec.ending.telemetry, Origin(*lineage), clock)
    run.loop.tap = telemetry.observe
    return Record(clock, telemetry)
