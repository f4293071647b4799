"""Measure light streams: four trivial stages, and running sums for each of 1,000 keys, with a source that always has
more.

    python -m lab.benchmarks.light_streams [--quick] [--json] [--items 512|auto]

An item goes the whole way: source, source thread, intake, engine, workers of the Ray pool, monitor, results. The output
is compared with a plain loop.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from compositions.model import Composition, Group, Pattern
from control.decisions import Mode
from lab.benchmarks.harness import Goal, Table, at_least, main
from lab.experiments.runs import UP_S, delivered, delivering
from service.runner.rpc.requests import ReadResults
from service.runner.runner import Runner
from service.schemas.spec import RunSpec

APPS = Path(__file__).parent / "light_apps"
STAGES = ("s1", "s2", "s3", "s4")
KEYS = 1_000
SETTLE_S = 3.0
"""Time until the bundle size has settled."""
LOOPS, STAGE_S = 20_000, 5e-6
Items = Annotated[str, "in a bundle: a number, or auto"]


def plus_four(value: int) -> int:
    """Return what the four stages make of a value."""
    return value + len(STAGES)


def sum_at(value: int) -> int:
    """Return the running sum that belongs to ``value``: of ``key, key + KEYS …`` up to it."""
    return (value // KEYS + 1) * (value % KEYS + value) // 2


@dataclass(frozen=True)
class Contender:
    """One composition of an app, pinned."""

    app: str
    groups: tuple[tuple[str, ...], ...]
    replicas: int = 1
    loops: int = 0
    items: str = "auto"
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
            raise ValueError(f"{self.app}: {len(values)} values, other than those of a plain loop")

    @contextmanager
    def _running(self, **ending: Any) -> Iterator[Runner]:
        pattern = Pattern.PAR if self.replicas > 1 else Pattern.SEQ
        composition = Composition("pinned", tuple(Group(names, pattern, self.replicas) for names in self.groups))
        spec = RunSpec(
            app=self.app, apps_dirs=(str(APPS),), mode=Mode.PINNED, options={"loops": self.loops} if self.loops else {},
            compositions=(composition,), composition=composition.name,
            batching={"items": self.items if self.items == "auto" else int(self.items)}, **ending,
        )  # fmt: skip
        with delivering(spec) as runner:
            yield runner


def compared(
    title: str, contenders: Mapping[str, Contender], goals: list[Goal], seconds: float, rounds: int
) -> Iterator[Table]:
    """Yield the rates of contenders that take turns, and the CPU time per item of their runners."""
    for each in contenders.values():
        each.verify(20_000)
    rates = {name: partial(each.rate_per_s, seconds) for name, each in contenders.items()}
    yield Table(title, "items/s", goals).run(rates, rounds)
    cpu = Table(f"{title}: CPU time of the runner's process per item", "us")
    cpu.rounds = [{name: each.cpu_us[turn] for name, each in contenders.items()} for turn in range(rounds)]
    yield cpu


def loops_of_a_stage() -> int:
    """Return how many loops take STAGE_S of CPU on this machine: the best of a few tries."""

    def timed() -> float:
        began_s = time.process_time()
        for _ in range(LOOPS):
            pass
        return time.process_time() - began_s

    return max(1, round(LOOPS * STAGE_S / min(timed() for _ in range(20))))


def measure(
    quick: Annotated[bool, "one short round instead of three long ones"] = False, items: Items = "auto"
) -> Iterator[Table]:
    rounds, seconds = (1, 2.0) if quick else (3, 6.0)
    merged = Contender("light", (STAGES,), items=items)
    apart = Contender("light", tuple((name,) for name in STAGES), items=items)
    goals = [at_least("merged", "merged", 1_000_000), at_least("four groups", "four groups", 400_000)]
    yield from compared("four trivial stages", {"merged": merged, "four groups": apart}, goals, seconds, rounds)

    loops = loops_of_a_stage()
    busy = {
        f"{count} at it": Contender("light", (STAGES,), count, loops, items) for count in (1, 2)
    }  # fmt: skip
    goals = [at_least("two replicas, times one", "2 at it", 1.5, "1 at it")]
    yield from compared(f"the same, one stage with 5 µs of CPU ({loops} loops)", busy, goals, seconds, rounds)

    keyed = {
        name: Contender(app, (("total",),), replicas, items=items, expected=sum_at)
        for name, app, replicas in (
            ("one worker", "keyed_sum", 1), ("two replicas", "keyed_sum", 2), ("a bundle a call", "keyed_sums", 1)
        )
    }  # fmt: skip
    goals = [at_least("one worker", "one worker", 400_000)]
    yield from compared("running sum for each of 1,000 keys", keyed, goals, seconds, rounds)


if __name__ == "__main__":
    main(measure, ray=True)
