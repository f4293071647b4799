"""All queries in all compositions and schedulers, in virtual time, while workers die, partitions move and compositions
change each second: what comes out is what a plain loop tells, byte for byte, and what DuckDB finds.

    python -m benchmarks.query_matrix [--part 1/20] [--query q1] [--draw 40] [--seed 0]

Of each query every grouping with every number of workers from 1 to 16 that it can have, shared out over its groups by
chance, and ``Dyn`` with each scheduler and each of these numbers; rows in bundles of each size, and portions of many
rows (Arrow stages) in bundles of one of the sizes, in turns. Every second second a run is in another composition, any
of up to 16 workers.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import click

from benchmarks.harness import metadata
from benchmarks.matrix.play import Cell, Run, Seen
from benchmarks.matrix.streams import SQL, Stream, stages_of
from compositions.dynamic import SCHEDULER_NAMES
from compositions.enumeration import generate
from compositions.model import Composition
from compositions.notation import parse

MOST_WORKERS = 16
ROWS = {1: (400, 0, 16), 16: (400, 0, 16), 256: (2_000, 0, 16), 4096: (9_000, 0, 16)}
"""By the size of bundles: rows of the stream, rows in a portion, and partitions."""
PORTIONS = {1: (2_000, 25, 6), 16: (4_000, 25, 6), 4096: (2_500, 25, 12)}


@cache
def bound(query: str) -> Sequence[Composition]:
    """Every composition of up to 16 workers that are bound to their groups."""
    return tuple(generate(stages_of(query), max_workers=MOST_WORKERS, replicas=range(1, MOST_WORKERS + 1)))


@cache
def dynamic(query: str) -> Sequence[Composition]:
    """With each scheduler and each number of workers."""
    names = [f"Dyn*{workers}({name})" for workers in range(1, MOST_WORKERS + 1) for name in SCHEDULER_NAMES]
    return tuple(parse(each, stages_of(query), name=each) for each in names)


@cache
def shapes(query: str) -> Sequence[Composition]:
    """Those that have runs of their own."""
    chance, alike = random.Random(query), dict[object, list[Composition]]()
    for each in bound(query):
        alike.setdefault((each.grouping, each.workers), []).append(each)
    return (*map(chance.choice, alike.values()), *dynamic(query))


def cells(query: str, seed: int = 0) -> Iterator[Cell]:
    """All runs of a query."""
    others = (*bound(query), *dynamic(query) * 3)
    portions = list(PORTIONS)
    for number, shape in enumerate(shapes(query)):
        for size, stream in ROWS.items():
            yield Cell(Stream(query, *stream), shape, size, seed, others)
        size = portions[number % len(portions)]
        yield Cell(Stream(query, *PORTIONS[size]), shape, size, seed, others)


def run(chosen: Sequence[Cell], folder: Path) -> tuple[Seen, list[str]]:
    """What happened, and a sentence for each run that told something else."""
    seen, faults = Seen(), []
    for cell in chosen:
        one = Run(cell, folder)
        try:
            one.play()
        except AssertionError as error:
            faults.append(str(error))
        seen.add(one.seen)
    return seen, faults


def _part(text: str, found: Sequence[Cell]) -> Sequence[Cell]:
    number, of = map(int, text.split("/"))
    return found[number - 1 :: of]


@click.command()
@click.option("--query", "queries", type=click.Choice(list(SQL)), multiple=True, help="All, unless some are named.")
@click.option("--part", default="1/1", show_default=True, help="Every so manieth run only: 2/20 has the second of 20.")
@click.option("--draw", default=0, help="So many runs, drawn from them; 0: all.")
@click.option("--seed", default=0, show_default=True, help="Of which workers die, what comes next, and the draw.")
def main(queries: tuple[str, ...], part: str, draw: int, seed: int) -> None:
    """Prints how many runs there were, and those that told something else; exits with 1 if there are any."""
    every = [cell for query in queries or SQL for cell in cells(query, seed)]
    chosen = random.Random(seed).sample(every, draw) if draw else _part(part, every)
    with tempfile.TemporaryDirectory() as folder:
        seen, faults = run(chosen, Path(folder))
    click.echo(
        f"{seen.runs} of {len(every)} runs, seed {seed}: {len(faults)} differ; {seen.kills} workers killed, "
        f"{seen.switches} changes of composition, {seen.moved} partitions moved with states; "
        f"{time.process_time():.0f} s of CPU, {metadata()['date']}"
    )
    for fault in faults:
        click.echo(fault)
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()
