"""Measure how often each strategy settles on the right composition, over seeded random apps in the simulation.

The truth of a case is found without any strategy: every composition is run by itself, cheapest first.

    python -m lab.benchmarks.right_choice [--apps 200] [--processes 2] [--strategy expected-cost] [--json]
"""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Literal

import numpy as np

from apps.rates import Fixed
from compositions.enumeration import generate
from compositions.model import Composition, Stage, all_sequential
from control.decisions import State
from control.objectives import objective_of
from lab.benchmarks.harness import Rows, main
from lab.simulation.machine import Machine
from lab.simulation.scenario import Scenario, SimulatedStage
from lab.simulation.simulation import simulate
from lab.simulation.trace import Trace
from profiler.slo import INPUT_RATE, Slo
from profiler.stats import latency_stats

StrategyName = Literal["expected-cost", "vogel", "pdp21"]
STRATEGIES: tuple[StrategyName, ...] = ("expected-cost", "vogel", "pdp21")
FASTEST_PER_S = 60.0
"""Cap of the input rate; it bounds the run time without other effects, because only ratios matter."""
SPARE = 0.1
WARM_UP_S = 30.0
"""Start that the truth leaves out: then items that came while the first workers started are delivered."""
UNMANAGED_S = 10.0
"""Time between two turns of a manager without decisions; with four a second, turns take most of the time of a run."""
HELD_BACK = 0.8
"""A composition that takes less of the input than this does not meet a latency SLO: its queue is bounded only because
the source is held back."""
KEEPS_UP = 0.98
"""A composition that takes less of the input than this, as measured, or less than all of it by its true costs, does not
keep up: its backlog grows, which the product counts as a miss of ``throughput=input_rate``, however little it is
(``control.objectives.throughput.KeepingUp``)."""


@dataclass(frozen=True)
class Case:
    """One random app with an SLO, an input rate, a machine and its compositions."""

    seed: int
    stages: tuple[SimulatedStage, ...]
    compositions: tuple[Composition, ...]
    slo: Slo
    rate_per_s: float
    machine: Machine

    def scenario(self, strategy: str, duration_s: float, **more: object) -> Scenario:
        return Scenario(
            self.stages,
            self.compositions,
            self.slo,
            Fixed(self.rate_per_s),
            duration_s,
            self.machine,
            strategy,
            seed=self.seed,
            **more,  # type: ignore[arg-type]
        )


@dataclass(frozen=True)
class Truth:
    """Slack of each composition that ran alone (by name), cheapest first; below 0, it misses the SLO."""

    slack: dict[str, float]
    fewest: int | None
    """Workers of the cheapest composition that meets the SLO; ``None`` if none does."""
    roomy: bool
    """True if some composition meets it with 10 % to spare."""


@dataclass(frozen=True)
class Attempt:
    """The result of one strategy in one case."""

    case: int
    strategy: str
    feasible: bool
    roomy: bool
    extra_workers: int
    """Number of workers more than the cheapest composition that meets the SLO."""
    meets: bool
    """True if the settled composition, when it runs alone, meets the SLO."""
    infeasible: bool
    trials: int
    switches: int
    settled_s: float
    settled: bool


def random_case(seed: int) -> Case:
    """Return a case: 2–6 stages over two decades, 12–30 compositions, 1–24 cores, a rate near one's capacity."""
    draw = random.Random(seed)
    names = [f"s{index}" for index in range(draw.randint(2, 6))]
    cv, wait = draw.choice((0.0, 0.1, 0.3, 0.6)), draw.choice((0.0, 0.0, 0.0, 0.5))
    times = [0.004 * 10 ** draw.uniform(0, 2) for _ in names]
    cores = draw.randint(1, 24)
    compositions = _compositions(draw, [Stage(name) for name in names])
    rate = _capacity(draw.choice(compositions), dict(zip(names, times, strict=True)), cores) * draw.uniform(0.4, 1.15)
    scale = max(1.0, rate / FASTEST_PER_S)
    stages = tuple(SimulatedStage(n, s * scale, cv, wait) for n, s in zip(names, times, strict=True))
    slo = _slo(draw, sum(times) * scale, rate / scale)
    return Case(seed, stages, compositions, slo, rate / scale, Machine(cores))


def _compositions(draw: random.Random, stages: Sequence[Stage]) -> tuple[Composition, ...]:
    limit = draw.randint(len(stages) + 2, 2 * len(stages) + 6)
    everything = list(generate(stages, max_workers=limit, replicas=[1, 2, 4]))
    count = min(len(everything), draw.randint(12, 30))
    picked = draw.sample(everything, count)
    plain = all_sequential(stages)
    return (plain, *(c for c in picked if c.shape != plain.shape))


def _capacity(composition: Composition, times: dict[str, float], cores: int) -> float:
    """Return an upper bound of its throughput, from the true costs: no hops, no variation."""
    groups = min(group.replicas / sum(times[stage] for stage in group.stages) for group in composition.groups)
    return min(groups, cores / sum(times.values()))


def _slo(draw: random.Random, total_s: float, rate_per_s: float) -> Slo:
    if draw.random() < 0.5:
        return Slo("throughput", "input_rate" if draw.random() < 0.7 else rate_per_s * draw.uniform(0.6, 1.0))
    statistic = draw.choice(("mean", "mean", "p95"))
    return Slo("latency", total_s * 1000 * draw.uniform(1.0, 3.0), 0.2, statistic)  # type: ignore[arg-type]


def truth_of(case: Case) -> Truth:
    """Run compositions alone, in the order of workers, until one meets the SLO with 10 % to spare."""
    slack: dict[str, float] = {}
    ordered = sorted(case.compositions, key=lambda c: (c.workers, len(c.groups)))
    fewest: int | None = None
    for composition in ordered:
        slack[composition.name] = static_slack(case, composition)
        if fewest is None and slack[composition.name] >= 0:
            fewest = composition.workers
        if slack[composition.name] >= SPARE:
            return Truth(slack, fewest, roomy=True)
    return Truth(slack, fewest, roomy=False)


def static_slack(case: Case, composition: Composition, lasting_s: float | None = None) -> float:
    """Return the slack of ``composition`` alone for ``lasting_s`` (``None``: ``measured_s``), if it keeps up."""
    times = {stage.name: stage.service_s for stage in case.stages}
    cpu_s = {stage.name: stage.service_s * (1 - stage.wait_share) for stage in case.stages}
    groups = min(group.replicas / sum(times[stage] for stage in group.stages) for group in composition.groups)
    capacity = min(groups, case.machine.cores / sum(cpu_s.values()))
    needed = case.rate_per_s if case.slo.target == INPUT_RATE else 0.98 * _needed_per_s(case)
    if capacity < needed:
        return capacity / needed - 1
    lasting_s = (lasting_s or measured_s(case)) + WARM_UP_S
    run = simulate(case.scenario("static", lasting_s, first=composition, tick_s=UNMANAGED_S))
    return _slack_after(case, run, WARM_UP_S)


def _needed_per_s(case: Case) -> float:
    """Return the throughput below which a composition misses the SLO, whatever else it does."""
    objective = objective_of(case.slo)
    if objective.slo.target == INPUT_RATE:
        return KEEPS_UP * case.rate_per_s
    return objective.asked_per_s(case.rate_per_s) or HELD_BACK * case.rate_per_s


def measured_s(case: Case) -> float:
    """Return a duration in which a backlog shows and noise evens out: 300 items, 60 to 90 s."""
    return min(90.0, max(60.0, 300 / case.rate_per_s))


def _slack_after(case: Case, run: Trace, start_s: float) -> float:
    """Return the slack over all that was delivered from ``start_s`` on, not only over the manager's window."""
    items = [item for item in run.delivered if item.at_s >= start_s]
    if len(items) < 2:
        return -1.0
    throughput = (len(items) - 1) / (items[-1].at_s - items[0].at_s)
    objective, needed = objective_of(case.slo), _needed_per_s(case)
    if throughput < needed:
        return throughput / needed - 1
    latency = latency_stats(np.array([item.at_s - item.arrived_s for item in items]))
    verdict = objective.judge(latency, throughput, case.rate_per_s)
    return -1.0 if verdict.slack is None else verdict.slack


def run_case(seed: int, strategies: Sequence[str] = STRATEGIES) -> list[Attempt]:
    """Find the truth of one case, and run each strategy in it."""
    case = random_case(seed)
    truth = truth_of(case)
    return [run_strategy(case, truth, strategy) for strategy in strategies]


def run_strategy(case: Case, truth: Truth, strategy: str) -> Attempt:
    """Run until nothing has happened for two minutes, at most ten in all: workers may be released after a minute."""
    run = simulate(case.scenario(strategy, 600.0, until_settled_s=120.0))
    final = next(c for c in case.compositions if c.name == run.final.composition)
    slack = truth.slack.get(final.name)
    if slack is None:
        slack = static_slack(case, final)
    decisions = run.decisions
    return Attempt(
        case.seed,
        strategy,
        truth.fewest is not None,
        truth.roomy,
        final.workers - (truth.fewest or 0),
        slack >= 0,
        bool(decisions) and decisions[-1].infeasible,
        sum(decision.trials for decision in decisions),
        run.switches_between(0, 1e9),
        decisions[-1].at_s if decisions else 0.0,
        run.final.state is State.STABLE,
    )


def summary(attempts: Sequence[Attempt], strategy: str) -> dict[str, float]:
    """Return shares over the cases, as each name says; the first two are the figures of the contract."""
    own = [o for o in attempts if o.strategy == strategy]
    feasible, roomy = [o for o in own if o.feasible], [o for o in own if o.roomy]
    hopeless = [o for o in own if not o.feasible]
    return {
        "within one worker": _share([abs(o.extra_workers) <= 1 for o in feasible]),
        "SLO met where 10 % to spare": _share([o.meets for o in roomy]),
        "met and within one": _share([o.meets and o.extra_workers <= 1 for o in feasible]),
        "exactly the fewest": _share([o.meets and o.extra_workers == 0 for o in feasible]),
        "says infeasible when it is": _share([o.infeasible for o in hopeless]),
        "says infeasible wrongly": _share([o.infeasible for o in roomy]),
        "trials, mean": sum(o.trials for o in own) / max(1, len(own)),
        "switches, mean": sum(o.switches for o in own) / max(1, len(own)),
        "settled after s, mean": sum(o.settled_s for o in own) / max(1, len(own)),
        "not settled": _share([not o.settled for o in own]),
    }


def _share(flags: Sequence[bool]) -> float:
    return sum(flags) / len(flags) if flags else float("nan")


def wrong(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return cases that need a closer look."""
    return [o for o in attempts if (o.feasible and abs(o.extra_workers) > 1) or (o.roomy and not o.meets)]


def measure(
    apps: Annotated[int, "number of random apps"] = 200,
    first: Annotated[int, "first seed"] = 0,
    processes: int = 2,
    strategy: tuple[StrategyName, ...] = STRATEGIES,
) -> Iterator[Rows]:
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        results = pool.map(partial(run_case, strategies=strategy), range(first, first + apps), chunksize=2)
    attempts = [attempt for result in results for attempt in result]
    cases = [attempt for attempt in attempts if attempt.strategy == strategy[0]]
    known = {"apps": apps, "feasible": sum(o.feasible for o in cases), "10 % to spare": sum(o.roomy for o in cases)}
    yield Rows("cases", [known])
    figures = {name: summary(attempts, name) for name in strategy}
    rows = [{"share": share} | {name: figures[name][share] for name in strategy} for share in figures[strategy[0]]]
    yield Rows("shares of the cases, by strategy", rows)
    if strange := wrong([o for o in attempts if o.strategy == "expected-cost"]):
        yield Rows("wrong choices of expected-cost", [asdict(each) for each in strange])


if __name__ == "__main__":
    main(measure)
