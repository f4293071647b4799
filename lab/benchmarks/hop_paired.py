"""Compare the price of a hop with that of another state of the project: two live drivers take turns within a second.

    python -m lab.benchmarks.hop_paired FOLDER [--core 1] [--quick] [--json]

FOLDER is a checkout of the other state (``git worktree add FOLDER COMMIT``), with an environment of its own in
``.venv`` where it needs one. Both have four empty sequential stages on a Ray of their own; ``--core`` puts both on one
core, where the sum of all CPU time is what counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

from lab.benchmarks.harness import Table, at_least, at_most, main

HERE, BEFORE = "here", "before"
ROOT = Path(__file__).parents[2]


class Driver:
    """``lab/benchmarks/hop_driver.py`` on the code in ``folder``."""

    def __init__(self, folder: Path, core: int | None) -> None:
        own = folder / ".venv" / "bin" / "python"
        python = str(own) if own.exists() else sys.executable
        pinned = [] if core is None else [str(core)]
        self._process = subprocess.Popen(
            [python, "-P", str(ROOT / "lab" / "benchmarks" / "hop_driver.py"), *pinned],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.cpu_us: dict[str, float] = {}
        self._answer()

    def measure(self, kind: str, items: int) -> float:
        """Milliseconds of ``one``, items a second of a ``stream``; keeps what CPU time an item took."""
        assert self._process.stdin is not None, "it was asked for"
        print(kind, items, file=self._process.stdin, flush=True)
        told = json.loads(self._answer())
        self.cpu_us[kind] = told["cpu_us"]
        return float(told["figure"])

    def close(self) -> None:
        self._process.communicate()

    def _answer(self) -> str:
        assert self._process.stdout is not None, "it was asked for"
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a driver ended; what it said is above")
        return line


def measure(
    folder: Annotated[Path, "checkout of the other state"],
    core: Annotated[int | None, "the one core for both; without it they have all"] = None,
    quick: Annotated[bool, "8 rounds of 200 items instead of 20 of 400"] = False,
) -> Iterator[Table]:
    """``items`` one by one and four times as many pipelined, in each round."""
    rounds, items = (8, 200) if quick else (20, 400)
    drivers = {HERE: Driver(ROOT, core), BEFORE: Driver(folder.resolve(), core)}
    alone = Table("one item at a time, p50", "ms", [at_most("of before", HERE, 1.03, BEFORE)])
    rate = Table("pipelined", "items/s", [at_least("of before", HERE, 0.97, BEFORE)])
    less = [at_most("of before", HERE, 1.0, BEFORE)]
    cpu = {
        "one": Table("CPU time of driver and workers, one at a time", "µs/item", less),
        "stream": Table("CPU time of driver and workers, pipelined", "µs/item", less),
    }
    for _ in range(rounds):
        alone.run({name: partial(each.measure, "one", items) for name, each in drivers.items()}, 1)
        rate.run({name: partial(each.measure, "stream", 4 * items) for name, each in drivers.items()}, 1)
        for kind, table in cpu.items():
            table.rounds.append({name: each.cpu_us[kind] for name, each in drivers.items()})
    for each in drivers.values():
        each.close()
    yield from (alone, rate, *cpu.values())


if __name__ == "__main__":
    main(measure)
