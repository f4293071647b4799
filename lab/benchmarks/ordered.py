"""Run the pipelines, schedulers, worklists and ways to send of Prasaad et al., figures 8 to 14.

    python -m lab.benchmarks.ordered [--out DIR] [--inputs 20000] [--costs lab/benchmarks/query_costs.json]
    python -m lab.benchmarks.ordered --on threads --on ray [--figure 9] [--seconds 45] [--workers 2]

In virtual time it writes ``report.md``, with the claims and whether they are met, and a CSV file for each figure.

On real cores workers compute. Runs of a figure take turns, so that a slow minute hits all of them, for as many seconds
as are given. Ratios are compared within a round; their median is told, with an interval that has it in 95 of 100 cases
whatever their law. A message to a worker and back takes some 30 µs, so times are made longer until a tuple takes 1 ms
in the mean (figure 10: as published, but those that a message outlasts). The price of a question and of a crowd, which
virtual time must assume, is left to the machine. Outputs are held against a serial run. Beside each ratio stands that
of the same cases in virtual time: the most that so many workers can show.
"""

from __future__ import annotations

import csv
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import get_args

import click

from lab.benchmarks.crew import Crew, Place, WallTime
from lab.benchmarks.harness import median_interval, metadata, ray_if
from lab.papers.claims import markdown
from lab.papers.prasaad import figures
from lab.papers.prasaad.figures import Case, Cell, Figure, Pipelines, Plan, all_of
from lab.papers.prasaad.measured import read_costs
from lab.papers.prasaad.operators import bound_per_s, serial_run, work_s
from lab.papers.prasaad.plant import Plant
from lab.papers.prasaad.report import report
from lab.papers.prasaad.runs import TO, Run, counted, run

FIGURES = ("8", "9", "10", "11", "12", "12-dear", "13", "14")
CASE_S, TUPLE_S, EXPECTED_INPUTS = 0.8, 0.001, 600
COSTS_US = (1000, 10_000)
SIGMAS, MEANS = (0.2, 0.4), (0.0, 0.5)
Metric = Callable[[Run], float]


def rate(run: Run) -> float:
    """1 input/s where none was done: a ratio is to be a number."""
    return max(1.0, run.throughput_per_s)


def latency(run: Run) -> float:
    """The time of the run where no input was done."""
    return min(1e3 * CASE_S, run.latency_ms)


@dataclass(frozen=True)
class Pair:
    """What the paper says of two contenders: ``metric`` of the first is ``more`` than that of the second, or alike
    (None). They differ in one column of the figure; the rest is the same for both, and as ``where`` says."""

    said: str
    metric: Metric
    first: Cell
    second: Cell
    more: bool | None
    where: Callable[[tuple[Cell, ...]], bool] = lambda rest: True

    def ratios(self, rounds: Sequence[Mapping[tuple[Cell, ...], Run]]) -> list[float]:
        return [
            self.metric(run) / self.metric(found[other])
            for found in rounds
            for varied, run in found.items()
            if self.first in varied and self.where(varied)
            and (other := tuple(self.second if each == self.first else each for each in varied)) in found
        ]  # fmt: skip

    def verdict(self, ratios: Sequence[float]) -> str:
        """By the interval of the median; of fewer than six pairs there is none."""
        if len(ratios) < 6:
            return "undecided"
        low, high = median_interval(ratios)
        if self.more is None:
            return "as published" if 0.95 <= low <= high <= 1.05 else "undecided" if low <= 1 <= high else "not so"
        if not self.more:
            low, high = 1 / high, 1 / low
        return "as published" if low > 1 else "not so" if high < 1 else "undecided"


@dataclass(frozen=True)
class Comparison:
    plan: Plan
    pairs: Sequence[Pair]


def comparisons(pipelines: Pipelines, workers: int) -> Iterator[Comparison]:
    """In the order of the paper, with what it says of each."""
    cores = (workers,)
    yield Comparison(figures.schedulers(pipelines, 0, cores), [
        *(Pair(f"CT has more throughput than {name.upper()}", rate, "ct", name, True) for name in ("et", "qst")),
        Pair("CT has at least the throughput of LP", rate, "ct", "lp", True),
        *(Pair(f"LP has less latency than {name.upper()}", latency, "lp", name, False) for name in ("et", "qst", "ct")),
    ])  # fmt: skip
    yield Comparison(figures.skew(0, SIGMAS, MEANS, workers), [
        *(Pair(f"skewed keys: hybrid has more throughput than {other}", rate, "hybrid", other, True, lambda v: v[0] > 0)
          for other in ("partitioned", "shared")),
        Pair("even keys: hybrid and partitioned alike", rate, "hybrid", "partitioned", None, lambda v: v[0] == 0),
    ])  # fmt: skip
    yield Comparison(figures.waiting(0, COSTS_US, workers), [
        Pair(f"tuples of {cost:g} µs: hybrid has less latency than partitioned", latency, "hybrid", "partitioned",
             False, lambda varied, cost=cost: varied[0] == cost)
        for cost in COSTS_US
    ])  # fmt: skip
    yield Comparison(figures.queues(pipelines, 0, cores), [
        Pair("hybrid has more throughput than partitioned", rate, "hybrid", "partitioned", True),
        Pair("hybrid has less latency than partitioned", latency, "hybrid", "partitioned", False),
    ])  # fmt: skip
    flag = Pair("flag has more throughput than lock", rate, "non-blocking", "lock", True, lambda v: v[1] != 1)
    alone = Pair("one worker: flag and lock alike", rate, "non-blocking", "lock", None, lambda v: v[1] == 1)
    yield Comparison(figures.light(0, (1, workers)), [flag, alone])
    yield Comparison(figures.dear(0, (1, workers)), [flag, alone])
    yield Comparison(figures.many_outputs(0, (1, workers)), [flag, alone])
    yield Comparison(figures.sending(pipelines, 0, workers), [flag])


def slowed(case: Case) -> Case:
    """So that a tuple takes ``TUPLE_S`` in the mean; questions and crowds take what they take."""
    arriving = accumulate((each.selectivity for each in case.operators[:-1]), mul, initial=1.0)
    factor = TUPLE_S * sum(arriving) / work_s(case.operators)
    setup, settings = case.setup, case.setup.settings
    settings = replace(settings, slice_s=factor * settings.slice_s, window_s=factor * settings.window_s)
    setup = replace(setup, settings=settings, send_s=factor * setup.send_s, ask_s=0.0, take_s=0.0, crowding=0.0)
    operators = [replace(each, cost_s=factor * each.cost_s) for each in case.operators]
    return replace(case, operators=operators, setup=setup)


def live_run(case: Case, crew: Crew) -> Run:
    """By the clock; the inputs are as many as make ``CASE_S``. Raises: AssertionError when outputs are not a beginning
    of those of a serial run."""
    bound = bound_per_s(case.operators, case.setup.workers)
    rate_per_s = case.load * bound
    inputs = range(math.ceil(CASE_S * rate_per_s))
    arriving_s = len(inputs) / rate_per_s
    timeline = WallTime(crew)
    try:
        trace = Plant(case.operators, case.setup, timeline).run(inputs, rate_per_s, TO * arriving_s)
    finally:
        timeline.close()
    left = [value for _, _, value in trace.outputs]
    assert left == serial_run(case.operators, inputs)[: len(left)], f"{case.varied}: not what a serial run gives"
    return counted(trace, bound, arriving_s, case.setup.workers)


def cases_of(plan: Plan) -> list[Case]:
    return [each if plan.name == "10" else slowed(each) for each in plan.cases]


def expected(plan: Plan) -> dict[tuple[Cell, ...], Run]:
    """In virtual time."""
    return {each.varied: run(each.operators, each.setup, EXPECTED_INPUTS, each.load) for each in cases_of(plan)}


def rounds_of(plan: Plan, crew: Crew, seconds: float) -> list[dict[tuple[Cell, ...], Run]]:
    """Whole rounds, two at least, each beginning with another case."""
    cases = cases_of(plan)
    rounds: list[dict[tuple[Cell, ...], Run]] = []
    began_s = time.perf_counter()
    while len(rounds) < 2 or time.perf_counter() - began_s < seconds * len(rounds) / (len(rounds) + 1):
        first = len(rounds) % len(cases)
        rounds.append({each.varied: live_run(each, crew) for each in cases[first:] + cases[:first]})
    return rounds


def told(comparison: Comparison, rounds: Sequence[Mapping[tuple[Cell, ...], Run]]) -> str:
    lines, in_virtual_time = [], [expected(comparison.plan)]
    for pair in comparison.pairs:
        ratios = pair.ratios(rounds)
        low, high = median_interval(ratios)
        ratio = f"{statistics.median(ratios):.2f} ({low:.2f} to {high:.2f}, {len(ratios)} pairs)"
        virtual = f"{statistics.median(pair.ratios(in_virtual_time)):.2f}"
        lines.append([pair.said, virtual, ratio, pair.verdict(ratios)])
    head = ["the paper", "virtual time", f"{comparison.plan.title}: first / second", "here"]
    return markdown(head, lines)


def write(figure: Figure, out: Path) -> None:
    with (out / f"figure-{figure.name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(figure.head)
        writer.writerows(figure.lines())


def virtual_figures(pipelines: Pipelines, inputs: int, out: Path, facts: Mapping[str, str]) -> Path:
    """Make all figures, one after the other; return the path of the report."""
    began_s = time.process_time()
    out.mkdir(parents=True, exist_ok=True)
    made = []
    for plan in all_of(pipelines, inputs):
        figure = plan.made()
        write(figure, out)
        made.append(figure)
        click.echo(f"figure {figure.name}: {len(figure.rows)} runs")
    spent_s = time.process_time() - began_s
    runs = f"{sum(len(figure.rows) for figure in made)} of {inputs:,} inputs, {spent_s:.0f} s of CPU"
    (out / "report.md").write_text(report(made, {"runs": runs, **facts}), encoding="utf-8")
    return out / "report.md"


@click.command()
@click.option("--on", "places", type=click.Choice(get_args(Place)), multiple=True, help="Virtual time without it.")
@click.option("--figure", "chosen", type=click.Choice(FIGURES), multiple=True, help="All, unless some are named.")
@click.option("--seconds", default=45.0, show_default=True, help="For each figure and place.")
@click.option("--workers", default=2, show_default=True, help="On real cores.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("ordered"))
@click.option("--inputs", default=20_000, show_default=True, help="Of each run in virtual time.")
@click.option(
    "--costs", type=click.Path(dir_okay=False, path_type=Path), default=Path(__file__).with_name("query_costs.json")
)
def main(
    places: tuple[Place, ...],
    chosen: tuple[str, ...],
    seconds: float,
    workers: int,
    out: Path,
    inputs: int,
    costs: Path,
) -> None:
    """Print what the paper says of each figure, the ratio measured, and whether it says the same."""
    measured = read_costs(costs)
    if not places:
        about = ", ".join(f"{name} {value}" for name, value in measured.about.items())
        click.echo(str(virtual_figures(measured.pipelines, inputs, out, {"costs of the queries": about, **metadata()})))
        return
    for name, value in metadata().items():
        click.echo(f"{name}: {value}")
    for place in places:
        with ray_if(place == "ray"), closing(Crew(place, workers)) as crew:
            for comparison in comparisons(measured.pipelines, workers):
                if not chosen or comparison.plan.name in chosen:
                    rounds = rounds_of(comparison.plan, crew, seconds)
                    click.echo(f"\nFigure {comparison.plan.name}, {workers} workers on {place}\n")
                    click.echo(told(comparison, rounds))


if __name__ == "__main__":
    main()
