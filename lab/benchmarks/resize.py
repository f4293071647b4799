"""Resize one group from 1 replica to 4 and back under load, again and again.

It counts what is lost, and measures how long outputs pause and when a worker that joins the group gets its first task.

    python -m lab.benchmarks.resize [--seconds 120] [--every 2] [--load 0.8] [--json]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import cycle
from statistics import median
from typing import Annotated, Any

from apps.registry import create
from apps.synthetic.app import SyntheticOptions
from compositions.model import Composition, Group, Pattern, TransitionKind
from control.journal import OutputGaps, SwitchRecord
from lab.benchmarks.harness import Rows, main
from lab.simulation.synthetic_checks import verify
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.instructions import Task
from runtime.dispatch.outcomes import Delivered, SwitchEnded
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine
from runtime.pools.ray.pool import RayPool

SERVICE_S = 0.032
OPTIONS = {"compute": "wait", "total_ms": SERVICE_S * 1e3}
NARROW, WIDE = 1, 4
_PHASE = 0.618
"""Phase between two items: so commands fall everywhere between two arrivals, evenly."""


@dataclass(frozen=True)
class Resizes:
    """The result of a run. ``first_task_ms``: from the command to the first task sent to a worker new in the group."""

    resizes: int
    errors: int
    accepted: int
    delivered: int
    lost: int
    doubled: int
    misordered: int
    wrong: int
    steady_gap_p50_ms: float
    steady_gap_p99_ms: float
    median_gap_ms: float
    """Median of the longest gaps around each resize."""
    longest_gap_ms: float
    longest_steady_gap_ms: float
    gap_ratio: float
    """The longest at a resize to the 99th percentile of the steady ones."""
    gaps_beyond: int
    """Resizes with a gap beyond 1.1 of that percentile."""
    first_task_median_ms: float
    first_task_worst_ms: float


class Watched(RayPool):
    """Notes when a worker that is new in its group gets its first task."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.known: set[str] = set()
        self.commanded_s: float | None = None
        self.first_tasks_s: list[float] = []

    def command(self, known: set[str]) -> None:
        """Now the group is told to grow; ``known`` workers are in it."""
        self.known, self.commanded_s = known, self.now_s()

    def send(self, worker: str, tasks: Sequence[Task]) -> None:
        super().send(worker, tasks)
        if self.commanded_s is not None and worker not in self.known:
            self.first_tasks_s.append(self.now_s() - self.commanded_s)
            self.commanded_s = None


class Stream:
    """A paced stream through one group on Ray, driven as the runner does."""

    def __init__(self, rate_per_s: float) -> None:
        make_app = partial(create, "synthetic", OPTIONS)
        self.app = make_app()
        self.stages = tuple(self.app.stages)
        self.pool = Watched(make_app, [stage.name for stage in self.stages])
        dispatcher = Dispatcher(self.stages, self.sized(WIDE), DispatcherSettings(), self.pool.codec.size_bytes)
        self.engine = Engine(dispatcher, self.pool)
        self.gaps, self.records = OutputGaps(), list[SwitchRecord]()
        self.delivered: list[Delivered] = []
        self._items, self._interval_s = cycle(self.app.items(None)), 1 / rate_per_s
        self._due_s = 0.0

    def sized(self, replicas: int) -> Composition:
        group = Group(tuple(stage.name for stage in self.stages), Pattern.PAR, replicas)
        return Composition(f"{replicas} replicas", (group,))

    def open(self) -> None:
        self.engine.start()
        while len(self.engine.view().workers) < WIDE + 1:
            self.engine.advance(self.engine.now_s + 0.1)
        self._due_s = self.engine.now_s

    def run_until(self, end_s: float) -> None:
        while (now_s := self.engine.now_s) < end_s:
            while self._due_s <= now_s and self.engine.has_room:
                self.engine.admit(self.pool.codec.encode([next(self._items)]), (self._due_s,))
                self._due_s += self._interval_s
            self._hear(min(self._due_s if self.engine.has_room else end_s, end_s))

    def resize(self, replicas: int) -> None:
        group = {worker.worker for worker in self.engine.view().workers if worker.group is not None}
        if replicas > len(group):
            self.pool.command(group)
        self.records.append(SwitchRecord(None, None))
        self.gaps.switch_begins(self.records[-1])
        self.engine.switch(self.sized(replicas))

    def close(self) -> None:
        while not self.engine.idle:
            self._hear(self.engine.now_s + 0.1)
        self.engine.close()

    def _hear(self, until_s: float) -> None:
        for outcome in self.engine.advance(until_s):
            if isinstance(outcome, Delivered):
                self.gaps.delivered(outcome.at_s, outcome.composition)
                self.delivered.append(outcome)
            elif isinstance(outcome, SwitchEnded):
                self.records[-1].ended = outcome
                self.gaps.switch_ended()

    def results(self) -> list[dict[str, Any]]:
        return [row for out in self.delivered for row in self._rows(out)]

    def _rows(self, out: Delivered) -> list[dict[str, Any]]:
        """Return rows like lines of ``--out``."""
        if out.error is not None:
            return [{"serial": out.serial, "error": out.error}]
        values = self.pool.codec.decode(out.payload, out.start, out.start + out.count)
        pairs = zip(out.serials, values, strict=True)
        return [{"serial": serial, "value": self.app.encode_result(value)} for serial, value in pairs]


def run(seconds: float, every_s: float, load: float) -> Resizes:
    stream = Stream(load / SERVICE_S)
    stream.open()
    began_s, sizes = stream.engine.now_s, deque([NARROW, WIDE])
    for turn in range(int(seconds / every_s)):
        stream.run_until(began_s + turn * every_s + _PHASE * turn % 1 * SERVICE_S / load)
        stream.resize(sizes[0])
        sizes.rotate()
    stream.run_until(began_s + seconds)
    stream.close()
    return judged(stream)


def judged(stream: Stream) -> Resizes:
    accepted, results = stream.engine.view().accepted, stream.results()
    verdict = verify(results, SyntheticOptions(**OPTIONS), accepted=accepted)  # type: ignore[arg-type]
    ended = [record.ended for record in stream.records]
    in_place = [each for each in ended if each and each.error is None and each.kind is TransitionKind.RESIZE]
    gaps_ms = [1e3 * record.longest_gap_s for record in stream.records if record.longest_gap_s is not None]
    steady_ms = {share: 1e3 * (stream.gaps.steady_s(share) or 0.0) for share in (50, 99, 100)}
    first_ms = [1e3 * first_s for first_s in stream.pool.first_tasks_s]
    return Resizes(
        resizes=len(in_place),
        errors=len(ended) - len(in_place),
        accepted=accepted,
        delivered=verdict.delivered,
        lost=verdict.lost,
        doubled=verdict.doubled,
        misordered=verdict.misordered,
        wrong=verdict.wrong,
        steady_gap_p50_ms=steady_ms[50],
        steady_gap_p99_ms=steady_ms[99],
        median_gap_ms=median(gaps_ms),
        longest_gap_ms=max(gaps_ms),
        longest_steady_gap_ms=steady_ms[100],
        gap_ratio=max(gaps_ms) / steady_ms[99],
        gaps_beyond=sum(gap_ms > 1.1 * steady_ms[99] for gap_ms in gaps_ms),
        first_task_median_ms=median(first_ms),
        first_task_worst_ms=max(first_ms),
    )


def measure(
    seconds: float = 120.0,
    every: Annotated[float, "seconds between two resizes"] = 2.0,
    load: Annotated[float, "share of what one replica can do that is offered"] = 0.8,
) -> Iterator[Rows]:
    found = run(seconds, every, load)
    whole = not (found.errors or found.lost or found.doubled or found.misordered or found.wrong)
    title = f"{load:g} of one replica, {load / SERVICE_S:g} items/s of {SERVICE_S * 1e3:g} ms"
    yield Rows(title, [asdict(found)], {"every item once, in order, right": whole})


if __name__ == "__main__":
    main(measure, ray=True)
