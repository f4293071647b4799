"""Recompose as a contender: source, source thread, intake, engine, workers of the ray pool, monitor, results."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compositions.model import Composition, Group, Pattern
from control.decisions import Mode
from lab.benchmarks.delivering import delivering
from lab.benchmarks.light.work import STAGES, plus_four
from service.runner.rpc.requests import ReadResults, ReadStatus, ReadSummary, Stop
from service.runner.runner import Runner
from service.schemas.spec import RunSpec

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
