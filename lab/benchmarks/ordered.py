"""Run the pipelines, schedulers, worklists and ways to send of Prasaad et al., figures 8 to 14.

    python -m lab.benchmarks.ordered [--out DIR] [--inputs 20000] [--costs lab/benchmarks/query_costs.json]
    python -m lab.benchmarks.ordered --on threads --on ray [--figure 9] [--seconds 45] [--workers 2]

In virtual time it writes ``report.md``, with the claims and their verdicts, and a CSV file for each figure.

On real cores workers compute. Runs of a figure take turns, so that a slow minute affects all of them. Ratios are taken
within a round; their median is printed with an interval that contains it in 95 of 100 cases. A message to a worker and
back takes some 30 µs, so times are made longer until a tuple takes 1 ms in the mean (figure 10: as published, without
those that are shorter than a message). The prices of a question and of a crowd, which virtual time must assume, are the
machine's. Outputs are compared with a serial run. Beside each ratio stands that of the same cases in virtual time.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Annotated, Any, Literal

from lab.benchmarks.crew import Crew, Place, WallTime
from lab.benchmarks.harness import Rows, main, median_interval, metadata, progress, ray_if
from lab.papers.prasaad import figures
from lab.papers.prasaad.claims import report
from lab.papers.prasaad.figures import Case, Cell, Pipelines, Plan, all_of
from lab.papers.prasaad.measured import read_costs
from lab.papers.prasaad.operators import bound_per_s, serial_run, work_s
from lab.papers.prasaad.plant import Plant
from lab.papers.prasaad.runs import TO, Run, counted, run
from lab.papers.report import write_csv

FigureName = Literal["8", "9", "10", "11", "12", "12-dear", "13", "14"]
COSTS = Path(__file__).with_name("query_costs.json")
CASE_S, TUPLE_S, EXPECTED_INPUTS = 0.8, 0.001, 600
COSTS_US = (1000, 10_000)
SIGMAS, MEANS = (0.2, 0.4), (0.0, 0.5)
Metric = Callable[[Run], float]


def rate(run: Run) -> float:
    """Return the throughput, or 1 input/s if there was none: a ratio must be a number."""
    return max(1.0, run.throughput_per_s)


def latency(run: Run) -> float:
    """Return the latency, or the time of the run if no input was done."""
    return min(1e3 * CASE_S, run.latency_ms)


@dataclass(frozen=True)
class Pair:
    """A statement of the paper: ``metric`` of the first contender is ``more`` than that of the second, or equal (None).
    They differ in one column of the figure; the rest is the same for both, and as ``where`` says."""

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
        """Judge by the interval of the median; fewer than six pairs have none."""
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
    """Yield the figures in the order of the paper, with its statements."""
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
    """Slow a case down so that a tuple takes ``TUPLE_S`` in the mean; questions and crowds cost what they cost."""
    arriving = accumulate((each.selectivity for each in case.operators[:-1]), mul, initial=1.0)
    factor = TUPLE_S * sum(arriving) / work_s(case.operators)
    setup, settings = case.setup, case.setup.settings
    settings = replace(settings, slice_s=factor * settings.slice_s, window_s=factor * settings.window_s)
    setup = replace(setup, settings=settings, send_s=factor * setup.send_s, ask_s=0.0, take_s=0.0, crowding=0.0)
    operators = [replace(each, cost_s=factor * each.cost_s) for each in case.operators]
    return replace(case, operators=operators, setup=setup)


def live_run(case: Case, crew: Crew) -> Run:
    """Run by the clock, with as many inputs as take ``CASE_S``. Raises: AssertionError when outputs are not a beginning
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
    """Return the runs of a figure in virtual time."""
    return {each.varied: run(each.operators, each.setup, EXPECTED_INPUTS, each.load) for each in cases_of(plan)}


def rounds_of(plan: Plan, crew: Crew, seconds: float) -> list[dict[tuple[Cell, ...], Run]]:
    """Run whole rounds, at least two, each beginning with another case."""
    cases = cases_of(plan)
    rounds: list[dict[tuple[Cell, ...], Run]] = []
    began_s = time.perf_counter()
    while len(rounds) < 2 or time.perf_counter() - began_s < seconds * len(rounds) / (len(rounds) + 1):
        first = len(rounds) % len(cases)
        rounds.append({each.varied: live_run(each, crew) for each in cases[first:] + cases[:first]})
    return rounds


def told(comparison: Comparison, rounds: Sequence[Mapping[tuple[Cell, ...], Run]]) -> Iterator[dict[str, Any]]:
    in_virtual_time = [expected(comparison.plan)]
    for pair in comparison.pairs:
        ratios = pair.ratios(rounds)
        low, high = median_interval(ratios)
        yield {
            "the paper": pair.said, "virtual time": statistics.median(pair.ratios(in_virtual_time)),
            "first / second": statistics.median(ratios), "from": low, "to": high, "pairs": len(ratios),
            "here": pair.verdict(ratios),
        }  # fmt: skip


def virtual_figures(pipelines: Pipelines, inputs: int, out: Path, facts: Mapping[str, str]) -> Rows:
    """Make all figures, one after the other, and the report."""
    began_s = time.process_time()
    out.mkdir(parents=True, exist_ok=True)
    made = []
    for plan in all_of(pipelines, inputs):
        figure = plan.made()
        write_csv(out / f"figure-{figure.name}.csv", figure.head, figure.lines())
        made.append(figure)
        progress(f"figure {figure.name}: {len(figure.rows)} runs")
    spent_s = time.process_time() - began_s
    runs = f"{sum(len(figure.rows) for figure in made)} of {inputs:,} inputs, {spent_s:.0f} s of CPU"
    (out / "report.md").write_text(report(made, {"runs": runs, **facts}), encoding="utf-8")
    return Rows("written", [{"report": str(out / "report.md"), "runs": runs}])


def measure(
    on: Annotated[tuple[Place, ...], "real workers instead of virtual time"] = (),
    figure: Annotated[tuple[FigureName, ...], "figures on real workers (default: all)"] = (),
    seconds: Annotated[float, "of each figure and place"] = 45.0,
    workers: Annotated[int, "number of real workers"] = 2,
    out: Path = Path("ordered"),
    inputs: Annotated[int, "of each run in virtual time"] = 20_000,
    costs: Annotated[Path, "file of lab.benchmarks.query_costs"] = COSTS,
) -> Iterator[Rows]:
    measured = read_costs(costs)
    if not on:
        about = ", ".join(f"{name} {value}" for name, value in measured.about.items())
        yield virtual_figures(measured.pipelines, inputs, out, {"costs of the queries": about, **metadata()})
    for place in on:
        with ray_if(place == "ray"), closing(Crew(place, workers)) as crew:
            for comparison in comparisons(measured.pipelines, workers):
                plan = comparison.plan
                if not figure or plan.name in figure:
                    rows = list(told(comparison, rounds_of(plan, crew, seconds)))
                    yield Rows(f"Figure {plan.name}, {workers} workers on {place}: {plan.title}", rows)


if __name__ == "__main__":
    main(measure)
