"""The price of a hop here, against another state of the project: two live drivers that take turns within a second.

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
from functools import partial
from pathlib import Path

from lab.benchmarks.harness import Goal, Table, options, report

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


def measure(other: Path, core: int | None, rounds: int, items: int) -> list[Table]:
    """``items`` one by one and four times as many pipelined, in each round."""
    drivers = {HERE: Driver(ROOT, core), BEFORE: Driver(other, core)}
    alone = Table("one item at a time, p50", "ms", [Goal("of before", HERE, BEFORE, 1.03, True)])
    rate = Table("pipelined", "items/s", [Goal("of before", HERE, BEFORE, 0.97, False)])
    cpu = {
        "one": Table(
            "CPU time of driver and workers, one at a time", "µs/item", [Goal("of it", HERE, BEFORE, 1.0, True)]
        ),
        "stream": Table(
            "CPU time of driver and workers, pipelined", "µs/item", [Goal("of it", HERE, BEFORE, 1.0, True)]
        ),
    }
    for _ in range(rounds):
        alone.run({name: partial(each.measure, "one", items) for name, each in drivers.items()}, 1)
        rate.run({name: partial(each.measure, "stream", 4 * items) for name, each in drivers.items()}, 1)
        for kind, table in cpu.items():
            table.rounds.append({name: each.cpu_us[kind] for name, each in drivers.items()})
    for each in drivers.values():
        each.close()
    return [alone, rate, *cpu.values()]


def main() -> None:
    parser = options(__doc__, "8 rounds of 200 items instead of 20 of 400")
    parser.add_argument("folder", type=Path, help="a checkout of the other state")
    parser.add_argument("--core", type=int, help="the one core for both; without it they have all")
    arguments = parser.parse_args()
    rounds, items = (8, 200) if arguments.quick else (20, 400)
    report(measure(arguments.folder.resolve(), arguments.core, rounds, items), arguments.json)


if __name__ == "__main__":
    main()
