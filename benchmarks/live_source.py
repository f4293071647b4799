"""Spark as a live source: the runner's memory while its input waits ten times faster than the app takes it.

Rows of 10 KB come from files as fast as Spark reads them; each costs a stage 2 ms. It is compared with half as many
rows: what is bounded does not grow with the input.

python -m benchmarks.live_source [--rows 20000] [--rounds 1] [--json]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from time import sleep
from typing import Any

import psutil

from apps.contract import App
from benchmarks.harness import Goal, Table, report
from compositions.model import Stage
from service.bodies.spec import RunSpec, SinkSpec, SourceSpec
from service.running.asking.requests import ReadStatus, ReadSummary, Start
from service.running.runner import Runner

ROW_BYTES = 10_000
IN_A_FILE = 500
APP = """
from benchmarks.live_source import Slow

class Slower(Slow):
    name = "slower"
"""


class Slow(App):
    """Takes 2 ms an item."""

    stages = (Stage("take"), Stage("wait"), Stage("give"))

    def take(self, row: Any) -> Any:
        return row

    def wait(self, row: Any) -> Any:
        sleep(0.002)
        return row["n"]

    def give(self, n: Any) -> Any:
        return n


def write_rows(folder: Path, rows: int) -> None:
    folder.mkdir()
    pad = "x" * ROW_BYTES
    for first in range(0, rows, IN_A_FILE):
        lines = "".join(f"{n},{pad}\n" for n in range(first, min(first + IN_A_FILE, rows)))
        (folder / f"{first:08d}.csv").write_text(lines)


def grown_mb(folder: Path, rows: int) -> float:
    """Resident memory of this process, the runner, at its peak, above what it had with the first results."""
    write_rows(folder / "in", rows)
    (folder / "apps").mkdir()
    (folder / "apps" / "slower.py").write_text(APP)
    source = SourceSpec(
        kind="spark", format="csv", path=str(folder / "in"), options={"schema": "n INT, pad STRING"}, loop=False
    )
    sink = SinkSpec(path=str(folder / "table"))
    runner = Runner(RunSpec(app="slower", apps_dirs=(str(folder / "apps"),), pool="local", source=source, sink=sink))
    runner.ask(Start())
    me, base, peak = psutil.Process(), 0.0, 0.0
    while not runner.wait(0.2):
        now = me.memory_info().rss / 1e6
        delivered = runner.ask(ReadStatus()).items.delivered
        base = base if base or delivered < 500 else now
        peak = max(peak, now)
    summary = runner.ask(ReadSummary())
    if summary.failure or summary.items.delivered != rows:
        raise SystemExit(f"the run went wrong: {summary}")
    return max(peak - base, 1.0)


def measure(rows: int, rounds: int) -> list[Table]:
    whole, half = f"{rows} rows", f"{rows // 2} rows"
    table = Table("memory of the runner", "MB", [Goal("twice the rows, times the growth", whole, half, 1.5, True)])

    def grown(count: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            return grown_mb(Path(folder), count)

    table.run({half: lambda: grown(rows // 2), whole: lambda: grown(rows)}, rounds)
    return [table]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    arguments = parser.parse_args()
    report(measure(arguments.rows, arguments.rounds), arguments.json)


if __name__ == "__main__":
    main()
