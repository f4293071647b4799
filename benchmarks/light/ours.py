"""Ours, by the whole way that a user gets: source, source thread, intake, engine, workers of the ray pool, monitor,
results. And the engine alone, whose workers answer at once, to see where the time goes."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.delivering import delivering
from benchmarks.light.work import STAGES, plus_four
from compositions.model import Composition, Group, Pattern, Stage
from control.decisions import Mode
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.events import Event, TaskDone, WorkerJoined
from runtime.dispatch.instructions import Task
from runtime.dispatch.outcomes import Delivered
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine
from runtime.transport.values import FrameCodec
from service.bodies.spec import RunSpec
from service.running.asking.requests import ReadResults, ReadStatus, ReadSummary, Stop
from service.running.runner import Runner

APPS = Path(__file__).parent / "apps"
NAMES = tuple(f"s{number + 1}" for number in range(STAGES))
UP_S = 60.0
SETTLE_S = 3.0
"""Until the size of bundles has found its place."""


def merged(replicas: int = 1) -> Composition:
    pattern = Pattern.PAR if replicas > 1 else Pattern.SEQ
    return Composition(f"merged*{replicas}", (Group(NAMES, pattern, replicas),))


def in_groups() -> Composition:
    return Composition("four groups", tuple(Group((name,)) for name in NAMES))


@dataclass(frozen=True)
class Recompose:
    """One composition, pinned."""

    composition: Composition
    loops: int = 0
    batching: Mapping[str, Any] = field(default_factory=dict)
    """As in the start body."""
    app: Path = APPS / "light.py"
    """Its name is the file's; its source counts from 0."""
    expected: Callable[[int], int] = plus_four
    """What becomes of a number."""
    cpu_us: list[float] = field(default_factory=list)
    """CPU time of this process, which holds the runner and not the workers, for an item; one a measurement."""

    def rate_per_s(self, seconds: float) -> float:
        """Items delivered per second while the stream runs; of those that can be read, each is what it must be."""
        with self._running() as runner:
            time.sleep(SETTLE_S)
            before, began_s, spent_s = (
                runner.ask(ReadStatus()).items.delivered,
                time.perf_counter(),
                time.process_time(),
            )
            time.sleep(seconds)
            after, ended_s = runner.ask(ReadStatus()).items.delivered, time.perf_counter()
            self.cpu_us.append((time.process_time() - spent_s) / (after - before) * 1e6)
            for result in runner.ask(ReadResults(after=None, limit=1000)):
                if result.value != self.expected(result.serial):
                    raise ValueError(f"item {result.serial} came out as {result.value}, error {result.error}")
            runner.ask(Stop(drain=False))
            items = runner.ask(ReadSummary()).items
            if items is None or items.failed or items.lost or items.misordered:
                raise ValueError(f"{self.composition.name}: {items}")
        return (after - before) / (ended_s - began_s)

    def verify(self, items: int) -> None:
        """Every result of a short run, from its file. Raises: ValueError when it is not what a plain loop has."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.jsonl"
            with self._running(items=items, out_path=str(path)) as runner:
                runner.wait(UP_S)
            values = [json.loads(line)["value"] for line in path.read_text().splitlines()]
        if values != list(map(self.expected, range(items))):
            raise ValueError(f"{self.composition.name}: {len(values)} values, other than those of a plain loop")

    @contextmanager
    def _running(self, **ending: Any) -> Iterator[Runner]:
        spec = RunSpec(
            app=self.app.stem, apps_dirs=(str(self.app.parent),), mode=Mode.PINNED,
            options={"loops": self.loops} if self.loops else {},
            compositions=(self.composition,), composition=self.composition.name, batching=dict(self.batching), **ending,
        )  # fmt: skip
        with delivering(spec, UP_S) as runner:
            yield runner


class _AtOnce:
    """Workers that return each task as it came; its stages took no time."""

    def __init__(self, stages: Sequence[str]) -> None:
        self._events: list[Event] = []
        self._workers = 0

    def now_s(self) -> float:
        return time.monotonic()

    def start(self, count: int) -> None:
        for _ in range(count):
            self._workers += 1
            self._events.append(WorkerJoined(self.now_s(), f"w{self._workers}"))

    def end(self, worker: str, *, kill: bool = False) -> None: ...

    def send(self, worker: str, tasks: Sequence[Task]) -> None:
        self._events += [TaskDone(self.now_s(), worker, task.task_id, task.payload) for task in tasks]

    def ask(self, worker: str, losses: int) -> None: ...

    def wait(self, until_s: float) -> Sequence[Event]:
        events, self._events = self._events, []
        return events

    def wake(self) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class EngineAlone:
    """Dispatcher and engine, in this thread, with bundles of so many."""

    composition: Composition
    bundle: int = 1

    def rate_per_s(self, items: int) -> float:
        codec = FrameCodec()
        stages, settings = [Stage(name) for name in NAMES], DispatcherSettings(spares=0)
        engine = Engine(Dispatcher(stages, self.composition, settings, codec.size_bytes), _AtOnce(NAMES))
        engine.start()
        payload, admitted, delivered = codec.encode([0] * self.bundle), 0, 0
        began_s = time.perf_counter()
        times = (began_s,) * self.bundle
        while delivered < items:
            while admitted < items and engine.has_room:
                engine.admit(payload, times)
                admitted += self.bundle
            for outcome in engine.advance(engine.now_s):
                delivered += outcome.count if isinstance(outcome, Delivered) else 0
        return delivered / (time.perf_counter() - began_s)
