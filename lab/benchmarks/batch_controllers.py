"""Run the batch controllers of Leonarczyk 2024 and ours in virtual time: all its tables and figures.

    python -m lab.benchmarks.batch_controllers [--out DIR] [--repetitions 1] [--drawn 10] [--workers 2]

Writes ``rows.json``, ``figures.json`` (what verdicts are given on), and data and a picture of each figure. ``--record``
replaces the recorded ``figures.json``.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from lab.benchmarks.harness import Rows, main
from lab.papers.leonarczyk import grid, tables
from lab.papers.leonarczyk.drawn import against_the_six, reachable
from lab.papers.leonarczyk.figure_data import all_of
from lab.papers.leonarczyk.grid import OURS, Job, Setup, as_json, thesis_workload
from lab.papers.leonarczyk.page import RECORDED, RUNS, lines
from lab.papers.leonarczyk.plant import MACHINE
from lab.papers.leonarczyk.record import figures_of
from lab.papers.leonarczyk.tables import Rows as Grid
from lab.papers.pictures import picture
from lab.papers.report import write_csv


def repeated_setups() -> Iterator[Job]:
    """Yield the printed best setups and ours, ten runs each."""
    for setup in (*tables.printed_setups(), Setup(OURS)):
        yield from ((setup, repetition) for repetition in range(RUNS))


def measure(
    out: Path = Path("batch-controllers"),
    repetitions: Annotated[int, "runs of every combination; the thesis has 10"] = 1,
    drawn: Annotated[int, "number of workloads drawn at random"] = 10,
    workers: Annotated[int, "number of processes"] = 2,
    record: Annotated[bool, "replace the recorded figures, from which verdicts are given"] = False,
) -> Iterator[Rows]:
    began_s = time.monotonic()
    jobs = [(setup, repetition) for repetition in range(repetitions) for setup in grid.setups()]
    rows = list(grid.run(jobs, MACHINE, workers))
    grid_s, cpu_s = time.monotonic() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    repeated = list(grid.run(repeated_setups(), MACHINE, workers))
    with ProcessPoolExecutor(workers) as pool:
        cases = list(pool.map(against_the_six, range(1, drawn + 1)))
    told = f"{len(jobs)} in {grid_s:.0f} s, {cpu_s:.0f} s of CPU"
    out.mkdir(parents=True, exist_ok=True)
    (out / "rows.json").write_text(json.dumps([as_json(row) for row in rows]), encoding="utf-8")
    path = RECORDED if record else out / "figures.json"
    figures = figures_of(Grid(rows), Grid(repeated), thesis_workload(), MACHINE)
    path.write_text(json.dumps(figures) + "\n", encoding="utf-8")
    for number, data in all_of(Grid(rows), thesis_workload(), MACHINE).items():
        write_csv(out / f"figure-{number}.csv", data.head, data.lines)
        (out / f"figure-{number}.png").write_bytes(picture(f"Figure {number}", data))
    yield Rows("the grid", [{"runs": told, "rows": len(rows), "pipeline": str(MACHINE), "written to": str(out)}])
    yield Rows("findings on the thesis", [{"item": each.item, "verdict": each.verdict} for each in lines(path)])
    yield Rows("tables 5.1, 5.4 and 5.5 [%]", figures["cells"])
    most = reachable(thesis_workload(), MACHINE)
    yield Rows("itemized hit at 5 % [%]", tables.of_the_reachable(Grid(rows), most))
    yield Rows("workloads drawn at random", [asdict(each) for each in cases])


if __name__ == "__main__":
    main(measure)
