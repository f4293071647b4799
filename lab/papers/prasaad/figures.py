"""Figures 8 to 14 of Prasaad et al., and what else is asked of schedulers and worklists.

Of each figure the cases are given: in virtual time they are run as they are, on real cores
(``lab.benchmarks.ordered --on threads``) slowed, so that a message costs little beside a tuple.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import erf, sqrt

from compositions.batch_settings import SchedulerSettings
from compositions.dynamic import SCHEDULER_NAMES
from compositions.model import StageKind
from lab.papers.prasaad.operators import Operator, work_s
from lab.papers.prasaad.plant import Setup
from lab.papers.prasaad.runs import OVERLOAD, Run, run
from lab.papers.prasaad.station import Sending
from lab.papers.prasaad.worklists import QueueName

Pipelines = Mapping[str, Sequence[Operator]]
Cell = str | float
MOST_WORKERS = 16
CORES = (2, 4, 8, MOST_WORKERS)
PUBLISHED = ("qst", "lp", "et", "ct")

SLICE, WINDOW, ASK, SEND, CROWDING = 5.0, 50.0, 0.05, 0.005, 0.02
CAPACITY = 100
"""Slice, window, a question and an output as multiples of what an input of the pipeline costs, for queries differ by
fifty times in that; what a further worker at an operator adds; and QST's ``C``. All assumed: the paper gives none."""
RING = 8192
LEAST_WINDOW_S = 1e-5
"""The shortest that there is."""
QUEUES: tuple[QueueName, ...] = ("hybrid", "partitioned", "shared")
FINE = 100
"""Partitions, where they are not limited by the workers (section 7.2)."""
SIGMAS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.7, 1.0, 2.0)
COSTS_US = (10, 100, 1000, 10_000)
SENDING: tuple[Sending, ...] = ("non-blocking", "lock")


@dataclass(frozen=True, slots=True)
class Case:
    """One run of a figure."""

    varied: tuple[Cell, ...]
    operators: Sequence[Operator]
    setup: Setup
    inputs: int
    load: float = OVERLOAD


@dataclass(frozen=True, slots=True)
class Plan:
    """The cases of a figure, and the names of what varies."""

    name: str
    title: str
    varies: tuple[str, ...]
    cases: Sequence[Case]

    def made(self) -> Figure:
        """Run all cases in virtual time."""
        rows = [(each.varied, run(each.operators, each.setup, each.inputs, each.load)) for each in self.cases]
        return Figure(self.name, self.title, self.varies, rows)


@dataclass(frozen=True, slots=True)
class Figure:
    """A table of runs: what varies, in the columns before those of every run."""

    name: str
    title: str
    varies: tuple[str, ...]
    rows: Sequence[tuple[tuple[Cell, ...], Run]]

    @property
    def head(self) -> list[str]:
        return [*self.varies, "inputs_per_s", "share_of_bound", "latency_ms", "worker_us", "longest_worklists"]

    def lines(self) -> Iterator[list[Cell]]:
        for varied, each in self.rows:
            longest = " ".join(map(str, each.longest))
            yield [*varied, each.throughput_per_s, each.share, each.latency_ms, each.worker_us, longest]

    def of(self, *varied: Cell) -> Run:
        """Raises: KeyError when there is no such run."""
        return dict(self.rows)[varied]


def schedulers(pipelines: Pipelines, inputs: int, cores: Sequence[int] = CORES) -> Plan:
    """Figure 8: the heuristics on the queries over the cores, overloaded."""
    cases = [
        Case((query, name, workers), operators, replace(usual(operators), scheduler=name, workers=workers), inputs)
        for (query, operators), name, workers in product(pipelines.items(), SCHEDULER_NAMES, cores)
    ]
    return Plan("8", "schedulers on the queries", ("query", "scheduler", "workers"), cases)


def at_rest(pipelines: Pipelines, inputs: int) -> Plan:
    """Figure 8 on all cores at half the bound, where no worklist grows by itself."""
    cases = [
        Case((query, name), operators, replace(usual(operators), scheduler=name), inputs, load=0.5)
        for (query, operators), name in product(pipelines.items(), SCHEDULER_NAMES)
    ]
    return Plan("8-half", "schedulers at half the bound", ("query", "scheduler"), cases)


def errata(inputs: int) -> Plan:
    """``ct`` as printed and corrected, on selectivities 1, 0.01, 1 and equal costs (equation 3)."""
    operators = [
        Operator(name, StageKind.STATELESS, 1e-5, given) for name, given in (("a", 1.0), ("b", 0.01), ("c", 1.0))
    ]
    setup, cases = usual(operators), []
    for form, count in product(("corrected", "printed"), (inputs, 2 * inputs)):
        by_form = replace(setup, settings=replace(setup.settings, selectivity=form))
        cases.append(Case((form, count), operators, by_form, count))
    return Plan("ct", "CT as printed and corrected", ("form", "inputs"), cases)


def skew(
    inputs: int, sigmas: Sequence[float] = SIGMAS, means: Sequence[float] = (0.0,), workers: int = MOST_WORKERS
) -> Plan:
    """Figure 9: keys from N(mean, σ) cut to [-1, 1], range-partitioned; one operator of 100 µs. The paper's mean is 0;
    with a range for each of two workers those keys are even whatever σ is, and those about 0.5 are not."""
    cases = []
    for mean, sigma, queue in product(means, sigmas, QUEUES):
        count = partitions(queue, workers)
        operator = keyed(1e-4, count, normal_bounds(sigma, count, mean))
        cases.append(Case((mean, sigma, queue), [operator], replace(_plain(1e-3, workers), queue=queue), inputs))
    return Plan("9", "skewed keys", ("mean", "sigma", "queue"), cases)


def waiting(inputs: int, costs_us: Sequence[int] = COSTS_US, workers: int = MOST_WORKERS) -> Plan:
    """Figure 10: latency at several costs of a tuple, keys spread evenly, at 0.9 of the bound."""
    cases = []
    for cost_us, queue in product(costs_us, QUEUES):
        setup = replace(_plain(cost_us / 1e5, workers), queue=queue)
        operator = keyed(cost_us / 1e6, partitions(queue, workers))
        cases.append(Case((cost_us, queue), [operator], setup, inputs, load=0.9))
    return Plan("10", "latency over the cost of a tuple", ("cost_us", "queue"), cases)


def queues(pipelines: Pipelines, inputs: int, cores: Sequence[int] = CORES) -> Plan:
    """Figure 11: the worklists on the queries under ``ct``; partitioned ones with a partition a worker at most."""
    cases = []
    for (query, stages), queue, workers in product(pipelines.items(), QUEUES, cores):
        most = partitions(queue, workers)
        operators = [replace(each, partitions=min(each.partitions, most)) for each in stages]
        setup = replace(usual(operators), queue=queue, workers=workers)
        cases.append(Case((query, queue, workers), operators, setup, inputs))
    return Plan("11", "worklists on the queries", ("query", "queue", "workers"), cases)


def light(inputs: int, cores: Sequence[int] = (1, *CORES)) -> Plan:
    """Figure 12: one stateless operator of 20 µs; to send an output takes 1 µs more."""
    operators = [Operator("light", StageKind.STATELESS, 2e-5, cv=0.3)]
    return _sending(Plan("12", "sending after a light operator", (), ()), operators, inputs, cores)


def dear(inputs: int, cores: Sequence[int] = (1, *CORES)) -> Plan:
    """Figure 12 with an output that takes as long as the tuple, which the paper has not: two workers seldom meet at
    the ring of a light one, so only here a lock costs them anything (0.09 of their throughput, in virtual time)."""
    plan = light(inputs, cores)
    cases = [replace(each, setup=replace(each.setup, send_s=2e-5)) for each in plan.cases]
    return replace(plan, name="12-dear", title="sending that takes as long as the tuple", cases=cases)


def many_outputs(inputs: int, cores: Sequence[int] = (1, *CORES)) -> Plan:
    """Figure 13: a stateless operator of 100 µs that gives 50 outputs, and a partitioned one of 100 µs."""
    operators = [Operator("flat map", StageKind.STATELESS, 1e-4, 50.0, cv=0.3), keyed(1e-4, FINE)]
    return _sending(Plan("13", "sending many outputs", (), ()), operators, inputs, cores)


def sending(pipelines: Pipelines, inputs: int, workers: int = MOST_WORKERS) -> Plan:
    """Figure 14: the two ways to send on the queries, under ``ct``; an output costs ten times as much."""
    cases = []
    for (query, operators), way in product(pipelines.items(), SENDING):
        setup = replace(usual(operators), sending=way, workers=workers)
        cases.append(Case((query, way), operators, replace(setup, send_s=10 * setup.send_s), inputs))
    return Plan("14", "sending on the queries", ("query", "sending"), cases)


def all_of(pipelines: Pipelines, inputs: int) -> Iterator[Plan]:
    """Yield all figures in the order of the paper."""
    yield schedulers(pipelines, inputs)
    yield at_rest(pipelines, inputs)
    yield errata(inputs)
    yield skew(inputs)
    yield waiting(inputs)
    yield queues(pipelines, inputs)
    yield light(inputs)
    yield many_outputs(inputs // 20)
    yield sending(pipelines, inputs)


def partitions(queue: QueueName, workers: int) -> int:
    """Return the number of partitions: for partitioned queues that of the workers (section 7.2.1)."""
    return workers if queue == "partitioned" else FINE


def keyed(cost_s: float, count: int, bounds: tuple[float, ...] = ()) -> Operator:
    return Operator("by key", StageKind.PARTITIONED, cost_s, 1.0, count, 0.3, bounds)


def normal_bounds(sigma: float, count: int, mean: float = 0.0) -> tuple[float, ...]:
    """Return cumulated shares of equal ranges of [-1, 1] under N(mean, σ), without what lies outside."""

    def below(value: float) -> float:
        return erf((value - mean) / sigma / sqrt(2))

    inside = below(1) - below(-1)
    return tuple((below(2 * (number + 1) / count - 1) - below(-1)) / inside for number in range(count))


def usual(operators: Sequence[Operator]) -> Setup:
    """Return the setup for a whole pipeline."""
    unit_s = work_s(operators)
    window_s = max(WINDOW * unit_s, LEAST_WINDOW_S)
    return Setup(
        workers=MOST_WORKERS, ring_slots=RING, ask_s=ASK * unit_s, send_s=SEND * unit_s, crowding=CROWDING,
        settings=SchedulerSettings(slice_s=SLICE * unit_s, window_s=window_s, capacity=CAPACITY),
    )  # fmt: skip


def _plain(slice_s: float, workers: int = MOST_WORKERS) -> Setup:
    """Return the setup for one operator: worklists are compared, not the interference of workers."""
    settings = SchedulerSettings(slice_s=slice_s, window_s=100 * slice_s)
    return Setup(workers=workers, ring_slots=RING, settings=settings)


def _sending(plan: Plan, operators: Sequence[Operator], inputs: int, cores: Sequence[int]) -> Plan:
    cases = []
    for way, workers in product(SENDING, cores):
        setup = replace(_plain(1e-3, workers), sending=way, send_s=1e-6)
        cases.append(Case((way, workers), operators, setup, inputs))
    return replace(plan, varies=("sending", "workers"), cases=cases)
