"""Recompose as a contender: source, source thread, intake, engine, workers of the Ray pool, monitor, results."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from compositions.model import Composition, Group, Pattern
from control.decisions import Mode
from lab.benchmarks.harness import Table
from lab.benchmarks.light.work import STAGES, plus_four
from lab.experiments.runs import UP_S, delivered, delivering
from service.runner.rpc.requests import ReadResults
from service.runner.runner import Runner
from service.schemas.spec import RunSpec

APPS = Path(__file__).parent / "apps"
NAMES = tuple(f"s{number + 1}" for number in range(STAGES))
SETTLE_S = 3.0
"""Time until the bundle size has settled."""
Items = Annotated[str, "of ours in a bundle: a number, or auto"]
Peers = Annotated[Path | None, "folder where peers are installed, if not here"]


def group(stages: tuple[str, ...], replicas: int = 1) -> Group:
    return Group(stages, Pattern.PAR if replicas > 1 else Pattern.SEQ, replicas)


def merged(replicas: int = 1) -> Composition:
    return Composition(f"merged*{replicas}", (group(NAMES, replicas),))


def in_groups() -> Composition:
    return Composition("four groups", tuple(group((name,)) for name in NAMES))


@dataclass(frozen=True)
class Recompose:
    """One composition, pinned."""

    composition: Composition
    loops: int = 0
    items: str = "auto"
    """Bundle size: a number, or auto."""
    app: str = "light"
    """App whose source counts from 0."""
    expected: Callable[[int], int] = plus_four
    """Result of a number."""
    cpu_us: list[float] = field(default_factory=list)
    """CPU time per item of this process, which holds the runner and not the workers; one per measurement."""

    def rate_per_s(self, seconds: float) -> float:
        """Return the items delivered per second while the stream runs; all results that can be read are checked."""
        with self._running() as runner:
            time.sleep(SETTLE_S)
            before, began_s, spent_s = delivered(runner), time.perf_counter(), time.process_time()
            time.sleep(seconds)
            after, ended_s = delivered(runner), time.perf_counter()
            self.cpu_us.append((time.process_time() - spent_s) / (after - before) * 1e6)
            for result in runner.ask(ReadResults(after=None, limit=1000)):
                if result.value != self.expected(result.serial):
                    raise ValueError(f"item {result.serial} came out as {result.value}, error {result.error}")
        return (after - before) / (ended_s - began_s)

    def verify(self, items: int) -> None:
        """Check every result of a short run. Raises: ValueError when it is not that of a plain loop."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.jsonl"
            with self._running(items=items, out_path=str(path)) as runner:
                runner.wait(UP_S)
            values = [json.loads(line)["value"] for line in path.read_text().splitlines()]
        if values != list(map(self.expected, range(items))):
            raise ValueError(f"{self.composition.name}: {len(values)} values, other than those of a plain loop")

    @contextmanager
    def _running(self, **ending: Any) -> Iterator[Runner]:
        size = self.items if self.items == "auto" else int(self.items)
        spec = RunSpec(
            app=self.app, apps_dirs=(str(APPS),), mode=Mode.PINNED, options={"loops": self.loops} if self.loops else {},
            compositions=(self.composition,), composition=self.composition.name, batching={"items": size}, **ending,
        )  # fmt: skip
        with delivering(spec) as runner:
            yield runner


def cpu_table(contenders: dict[str, Recompose]) -> Table:
    """Return the CPU time per item of the contenders' measurements so far."""
    rounds = len(next(iter(contenders.values())).cpu_us)
    table = Table("CPU time of the runner's process per item", "us")
    table.rounds = [{name: one.cpu_us[turn] for name, one in contenders.items()} for turn in range(rounds)]
    return table
