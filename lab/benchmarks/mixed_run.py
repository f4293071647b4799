"""Run five apps of random shapes on Ray for minutes, one after the other, in 60 random compositions each.

The shapes have filters, flat maps, batch and async stages, and states. Every second another composition is pinned (half
of the time the same groups with other replicas) and another bundle size is set, from 1 to 1,000; every three seconds a
worker is killed. The file of results is compared with those of a plain loop, line by line.

    python -m lab.benchmarks.mixed_run [--minutes 5] [--seed 1] [--rate 5000] [--json]
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Annotated

from apps.contract import Outputs
from compositions.model import Composition
from control.decisions import Mode
from lab.benchmarks.harness import Rows, Seed, main
from lab.benchmarks.mixed.apps.shaped import Kind, stages_of
from lab.benchmarks.mixed.drawn import Out, drawn_composition, drawn_kinds, plain_loop, resized
from lab.experiments.runs import delivering
from service.runner.rpc.requests import ReadStatus, SetBatching, SetMode
from service.runner.runner import Runner
from service.schemas.figures import Worker
from service.schemas.spec import BatchingSpec, InputSpec, RunSpec

APPS = Path(__file__).parent / "mixed" / "apps"
ROUNDS, CHANGE_S, KILL_S = 5, 1.0, 3.0
MOST_ITEMS, LINGER_MS = 1000, 200.0
PAUSE_S = 0.001
SHOWN = 3


@dataclass(frozen=True)
class Plan:
    """An app, its composition and bundle size from second to second, and the file of its results."""

    kinds: tuple[Kind, ...]
    compositions: tuple[Composition, ...]
    sizes: tuple[int, ...]
    kills: int
    rate_per_s: float
    out_path: str

    def spec(self) -> RunSpec:
        return RunSpec(
            app="shaped", apps_dirs=(str(APPS),), options={"kinds": self.kinds, "pause_s": PAUSE_S}, strategy="static",
            mode=Mode.PINNED, compositions=tuple({each.name: each for each in self.compositions}.values()),
            composition=self.compositions[0].name, input=InputSpec(rate_per_s=self.rate_per_s), out_path=self.out_path,
            settings={"losses": 100},  # only stages make dead letters here
        )  # fmt: skip


@dataclass(frozen=True)
class Mixed:
    """The result of one app. ``differing``: lines that differ from the plain loop's."""

    stages: str
    compositions: int
    switches: int
    resizes: int
    kills: int
    restarts: int
    accepted: int
    failed: int
    lines: int
    differing: int
    seconds: float


def drawn(chance: Random, seconds: float, rate_per_s: float, out_path: str) -> Plan:
    kinds = drawn_kinds(chance, least=4)
    stages = stages_of(kinds)
    compositions = [drawn_composition(chance, stages)]
    while len(compositions) < seconds / CHANGE_S:
        another = drawn_composition(chance, stages)
        compositions.append(another if chance.random() < 0.5 else resized(chance, compositions[-1], stages))
    sizes = tuple(round(MOST_ITEMS ** chance.random()) for _ in compositions)
    return Plan(kinds, tuple(compositions), sizes, int(seconds / KILL_S), rate_per_s, out_path)


Kill = Callable[[Worker], None]


def killed_here(worker: Worker) -> None:
    """Kill it by its process id on this machine."""
    os.kill(worker.pid, signal.SIGKILL)


def run(plan: Plan, chance: Random, kill: Kill = killed_here) -> Mixed:
    """Run the plan. Raises: ValueError if the run reports that it lost, or did not deliver, an item."""
    with delivering(plan.spec(), drain=True, may_fail=True) as runner:
        began_s = time.monotonic()
        kill_s = sorted(KILL_S * (number + chance.random()) for number in range(plan.kills))
        for number, (composition, size) in enumerate(zip(plan.compositions, plan.sizes, strict=True)):
            runner.ask(SetMode(Mode.PINNED, composition.name))
            runner.ask(SetBatching(BatchingSpec(items=size, linger_ms=LINGER_MS)))
            until_s = (number + 1) * CHANGE_S
            while kill_s and kill_s[0] < until_s:
                _sleep_until(began_s + kill_s.pop(0))
                _kill_one(runner, chance, kill)
            _sleep_until(began_s + until_s)
        status, seconds = runner.ask(ReadStatus()), time.monotonic() - began_s
    items = runner.ask(ReadStatus()).items
    lines, differing = compared(Path(plan.out_path), plain_loop(plan.kinds, range(items.accepted)))
    return Mixed(
        "-".join(plan.kinds), len(set(plan.compositions)), status.changes.switches, status.changes.resizes or 0,
        plan.kills, status.health.restarts or 0, items.accepted, items.failed, lines, differing, seconds,
    )  # fmt: skip


def _sleep_until(at_s: float) -> None:
    time.sleep(max(0.0, at_s - time.monotonic()))


def _kill_one(runner: Runner, chance: Random, kill: Kill) -> None:
    workers = runner.ask(ReadStatus()).workers
    if workers:
        with suppress(ProcessLookupError):  # the worker has just ended
            kill(chance.choice(workers))


# --- what came out ----------------------------------------------------------------------------------------------------


def compared(path: Path, expected: Sequence[Out]) -> tuple[int, int]:
    """Return the number of expected lines, and how many differ; the first of those are printed."""
    count = differing = 0
    with path.open(encoding="utf-8") as found:
        for want, line in zip_longest(_lines(expected), found):
            count += want is not None
            if want is None or line is None or not (line == want or _is_fault(line, want)):
                differing += 1
                if differing <= SHOWN:
                    print(f"expected {want!r}, found {line!r}", file=sys.stderr)
    return count, differing


def _lines(expected: Sequence[Out]) -> Iterator[str]:
    """Yield the lines of the file; of a failed item only the beginning, because the rest is a traceback."""
    for serial, out in enumerate(expected):
        if out is None:
            yield f'{{"serial": {serial}, "error": "'
        elif isinstance(out, Outputs):
            for part, value in enumerate(out):
                yield f'{{"serial": {serial}, "part": {part}, "value": {value}}}\n'
        else:
            yield f'{{"serial": {serial}, "value": {out}}}\n'


def _is_fault(line: str, begins: str) -> bool:
    """Return if the line reports the expected failure of a stage, not the death of a worker."""
    return begins.endswith('"error": "') and line.startswith(begins) and ("unlucky" in line or "returned" in line)


def rounds(seconds: float, seed: int, rate_per_s: float, kill: Kill = killed_here) -> Iterator[Rows]:
    """Run one app after the other."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(ROUNDS):
            chance = Random(f"{seed}/{number}")
            found = run(drawn(chance, seconds / ROUNDS, rate_per_s, f"{folder}/{number}.jsonl"), chance, kill)
            checks = {"the file equals a plain loop's": not found.differing}
            yield Rows(f"app {number + 1}", [asdict(found)], checks)


def measure(
    minutes: float = 5.0, seed: Seed = 1, rate: Annotated[float, "items/s that are offered"] = 5000.0
) -> Iterator[Rows]:
    return rounds(60 * minutes, seed, rate)


if __name__ == "__main__":
    main(measure, ray=True)
