"""The batch controllers of Leonarczyk 2024 and ours in virtual time: tables 5.1 to 5.5, figures 5.1 to 5.9.

    python -m lab.benchmarks.batch_controllers [--out DIR] [--repetitions 1] [--drawn 10] [--workers 2] [--quick]
                                           [--law FILE [--target-ms 3] [--assumed-noise]]

``--law`` takes a cost law that ``lab.benchmarks.military_server`` has measured instead of the assumed one.
Writes ``report.md`` (published values beside ours), ``rows.json`` and a CSV file for each figure.
"""

from __future__ import annotations

import csv
import json
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import click

from lab.benchmarks.harness import metadata
from lab.papers.leonarczyk import grid
from lab.papers.leonarczyk.clairvoyant import reachable
from lab.papers.leonarczyk.drawn import against_the_six, few_setups
from lab.papers.leonarczyk.figure_data import all_of
from lab.papers.leonarczyk.grid import OURS, PUBLISHED, TARGET_MS, Job, Setup, as_json, thesis_workload
from lab.papers.leonarczyk.measured import read_law
from lab.papers.leonarczyk.plant import CostLaw, Pipeline
from lab.papers.leonarczyk.published import THRESHOLDS
from lab.papers.leonarczyk.report import Comparison
from lab.papers.leonarczyk.tables import Rows, best_setups

RUNS = 10
"""Of the best setups, for their deviation: as in the thesis."""


def quick_setups() -> list[Setup]:
    """Samples of 1, few gains: to see that it works."""
    gains = {setup for setup in few_setups() if setup.controller == "pid"}
    return [each for each in grid.setups(samples=(1,)) if each.controller != "pid" or each in gains]


def best_again(rows: Rows) -> Iterator[Job]:
    """The best setups at 5 %, ten runs each: one run of each does not tell those apart that are close."""
    for name in (*PUBLISHED, OURS):
        setups = dict.fromkeys(best_setups(rows, name))
        yield from ((setup, repetition) for setup in setups for repetition in range(RUNS))


def write_figures(rows: Rows, pipeline: Pipeline, out: Path) -> None:
    for number, data in all_of(rows, thesis_workload(), pipeline).items():
        with (out / f"figure-{number}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(data.head)
            writer.writerows(data.lines)


def with_assumed_noise(pipeline: Pipeline) -> Pipeline:
    """Whatever else the machine did while the law was measured is left out."""
    usual = CostLaw()
    return replace(pipeline, law=replace(pipeline.law, cv=usual.cv, drift_cv=usual.drift_cv))


@click.command()
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("batch-controllers"))
@click.option("--repetitions", default=1, show_default=True, help="Runs of every combination; the thesis: 10.")
@click.option("--drawn", "cases", default=10, show_default=True, help="Workloads drawn at random.")
@click.option("--workers", default=2, show_default=True)
@click.option("--quick", is_flag=True, help="A part of the grid, no repetitions.")
@click.option("--law", type=click.Path(dir_okay=False, path_type=Path), help="Measured; else the assumed one.")
@click.option("--target-ms", default=TARGET_MS, show_default=True, help="Latency to aim at, under a measured law.")
@click.option("--assumed-noise", is_flag=True, help="With a measured law: noise as in the assumed one.")
def main(
    out: Path, repetitions: int, cases: int, workers: int, quick: bool, law: Path | None, target_ms: float,
    assumed_noise: bool,
) -> None:  # fmt: skip
    """Runs the grid, what else the report needs, and writes it all."""
    began_s = time.monotonic()
    pipeline = Pipeline() if law is None else read_law(law, TARGET_MS / target_ms)
    if assumed_noise:
        pipeline = with_assumed_noise(pipeline)
    setups = quick_setups() if quick else grid.setups()
    jobs = [(setup, repetition) for repetition in range(repetitions) for setup in setups]
    rows = list(grid.run(jobs, pipeline, workers))
    grid_s, cpu_s = time.monotonic() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    repeated = [] if quick else [row for row in grid.run(best_again(Rows(rows)), pipeline, workers) if _strict(row)]
    with ProcessPoolExecutor(workers) as pool:
        drawn = list(pool.map(against_the_six, range(1, cases + 1)))
    told = f"{len(jobs)} in {grid_s:.0f} s, {cpu_s:.0f} s of CPU"
    if law is not None:
        told += f"; {TARGET_MS:g} ms of virtual time stand for a target of {target_ms:g} ms"
    facts = {"runs of the grid": told, "figures from": f"{len(rows)} rows", **metadata()}
    out.mkdir(parents=True, exist_ok=True)
    (out / "rows.json").write_text(json.dumps([as_json(row) for row in rows]), encoding="utf-8")
    most = reachable(thesis_workload(), pipeline)
    (out / "report.md").write_text(Comparison(rows, repeated, drawn, most, pipeline, facts).text(), encoding="utf-8")
    write_figures(Rows(rows), pipeline, out)
    click.echo(str(out / "report.md"))


def _strict(row: grid.Row) -> bool:
    return row.threshold == THRESHOLDS[0]


if __name__ == "__main__":
    main()
