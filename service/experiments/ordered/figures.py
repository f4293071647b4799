"""Figures 8 to 14 of Prasaad et al. in virtual time, and what else is asked of schedulers and worklists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import erf, sqrt

from compositions.dynamic import SCHEDULER_NAMES
from compositions.model import StageKind
from compositions.scheduler_settings import SchedulerSettings
from service.experiments.ordered.operators import Operator, work_s
from service.experiments.ordered.plant import Setup
from service.experiments.ordered.runs import Run, run
from service.experiments.ordered.station import Sending
from service.experiments.ordered.worklists import QueueName

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
PARTITIONS: Mapping[QueueName, int] = {"hybrid": 100, "partitioned": MOST_WORKERS, "shared": 100}
"""For partitioned queues as many as workers (section 7.2.1)."""
SIGMAS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.7, 1.0, 2.0)
COSTS_US = (10, 100, 1000, 10_000)
SENDING: tuple[Sending, ...] = ("non-blocking", "lock")


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


def schedulers(pipelines: Pipelines, inputs: int, cores: Sequence[int] = CORES) -> Figure:
    """Figure 8: the heuristics on the queries over the cores, overloaded."""
    cases = product(pipelines, SCHEDULER_NAMES, cores)
    rows: list[tuple[tuple[Cell, ...], Run]] = [
        (
            (query, name, workers),
            run(pipelines[query], replace(usual(pipelines[query]), scheduler=name, workers=workers), inputs),
        )
        for query, name, workers in cases
    ]
    return Figure("8", "schedulers on the queries", ("query", "scheduler", "workers"), rows)


def at_rest(pipelines: Pipelines, inputs: int) -> Figure:
    """The same on all cores at half the bound, where no worklist grows by itself."""
    cases = product(pipelines, SCHEDULER_NAMES)
    rows: list[tuple[tuple[Cell, ...], Run]] = [
        ((query, name), run(pipelines[query], replace(usual(pipelines[query]), scheduler=name), inputs, load=0.5))
        for query, name in cases
    ]
    return Figure("8-half", "schedulers at half the bound", ("query", "scheduler"), rows)


def errata(inputs: int) -> Figure:
    """``ct`` as printed and corrected, on selectivities 1, 0.01, 1 and equal costs (equation 3)."""
    operators = [
        Operator(name, StageKind.STATELESS, 1e-5, given) for name, given in (("a", 1.0), ("b", 0.01), ("c", 1.0))
    ]
    rows: list[tuple[tuple[Cell, ...], Run]] = []
    for form, count in product(("corrected", "printed"), (inputs, 2 * inputs)):
        setup = usual(operators)
        setup = replace(setup, settings=replace(setup.settings, selectivity=form))
        rows.append(((form, count), run(operators, setup, count)))
    return Figure("ct", "CT as printed and corrected", ("form", "inputs"), rows)


def skew(inputs: int, sigmas: Sequence[float] = SIGMAS) -> Figure:
    """Figure 9: keys from N(0, σ) cut to [-1, 1], range-partitioned; one operator of 100 µs, 16 workers."""
    rows: list[tuple[tuple[Cell, ...], Run]] = []
    for sigma, (queue, count) in product(sigmas, PARTITIONS.items()):
        setup = replace(_plain(1e-3), queue=queue)
        rows.append(((sigma, queue), run([keyed(1e-4, count, normal_bounds(sigma, count))], setup, inputs)))
    return Figure("9", "skewed keys", ("sigma", "queue"), rows)


def waiting(inputs: int) -> Figure:
    """Figure 10: latency at several costs of a tuple, keys spread evenly, at 0.9 of the bound."""
    rows: list[tuple[tuple[Cell, ...], Run]] = []
    for cost_us, (queue, count) in product(COSTS_US, PARTITIONS.items()):
        setup = replace(_plain(cost_us / 1e5), queue=queue)
        rows.append(((cost_us, queue), run([keyed(cost_us / 1e6, count)], setup, inputs, load=0.9)))
    return Figure("10", "latency over the cost of a tuple", ("cost_us", "queue"), rows)


def queues(pipelines: Pipelines, inputs: int, cores: Sequence[int] = CORES) -> Figure:
    """Figure 11: the worklists on the queries under ``ct``; partitioned ones with a partition a worker at most."""
    rows: list[tuple[tuple[Cell, ...], Run]] = []
    for query, queue, workers in product(pipelines, PARTITIONS, cores):
        most = workers if queue == "partitioned" else PARTITIONS[queue]
        operators = [replace(each, partitions=min(each.partitions, most)) for each in pipelines[query]]
        rows.append(
            ((query, queue, workers), run(operators, replace(usual(operators), queue=queue, workers=workers), inputs))
        )
    return Figure("11", "worklists on the queries", ("query", "queue", "workers"), rows)


def light(inputs: int) -> Figure:
    """Figure 12: one stateless operator of 20 µs; to send an output takes 1 µs more."""
    return _sending(
        "12", "sending after a light operator", [Operator("light", StageKind.STATELESS, 2e-5, cv=0.3)], inputs
    )


def many_outputs(inputs: int) -> Figure:
    """Figure 13: a stateless operator of 100 µs that gives 50 outputs, and a partitioned one of 100 µs."""
    operators = [Operator("flat map", StageKind.STATELESS, 1e-4, 50.0, cv=0.3), keyed(1e-4, 100)]
    return _sending("13", "sending many outputs", operators, inputs)


def sending(pipelines: Pipelines, inputs: int) -> Figure:
    """Figure 14: the two ways to send on the queries, under ``ct`` on 16 workers; an output costs ten times as much."""
    rows: list[tuple[tuple[Cell, ...], Run]] = []
    for query, way in product(pipelines, SENDING):
        setup = usual(pipelines[query])
        dear = replace(setup, sending=way, send_s=10 * setup.send_s)
        rows.append(((query, way), run(pipelines[query], dear, inputs)))
    return Figure("14", "sending on the queries", ("query", "sending"), rows)


def all_of(pipelines: Pipelines, inputs: int) -> Iterator[Figure]:
    """In the order of the paper, each made when its turn comes."""
    yield schedulers(pipelines, inputs)
    yield at_rest(pipelines, inputs)
    yield errata(inputs)
    yield skew(inputs)
    yield waiting(inputs)
    yield queues(pipelines, inputs)
    yield light(inputs)
    yield many_outputs(inputs // 20)
    yield sending(pipelines, inputs)


def keyed(cost_s: float, partitions: int, bounds: tuple[float, ...] = ()) -> Operator:
    return Operator("by key", StageKind.PARTITIONED, cost_s, 1.0, partitions, 0.3, bounds)


def normal_bounds(sigma: float, partitions: int) -> tuple[float, ...]:
    """Cumulated shares of equal ranges of [-1, 1] under N(0, σ) without what lies outside."""

    def below(value: float) -> float:
        return (erf(value / sigma / sqrt(2)) / erf(1 / sigma / sqrt(2)) + 1) / 2

    return tuple(below(2 * (number + 1) / partitions - 1) for number in range(partitions))


def usual(operators: Sequence[Operator]) -> Setup:
    """For a whole pipeline."""
    unit_s = work_s(operators)
    window_s = max(WINDOW * unit_s, LEAST_WINDOW_S)
    return Setup(
        workers=MOST_WORKERS, ring_slots=RING, ask_s=ASK * unit_s, send_s=SEND * unit_s, crowding=CROWDING,
        settings=SchedulerSettings(slice_s=SLICE * unit_s, window_s=window_s, capacity=CAPACITY),
    )  # fmt: skip


def _plain(slice_s: float) -> Setup:
    """For one operator: worklists are compared, not what workers do to each other."""
    settings = SchedulerSettings(slice_s=slice_s, window_s=100 * slice_s)
    return Setup(workers=MOST_WORKERS, ring_slots=RING, settings=settings)


def _sending(name: str, title: str, operators: Sequence[Operator], inputs: int) -> Figure:
    rows: list[tuple[tuple[Cell, ...], Run]] = []
    for way, workers in product(SENDING, (1, *CORES)):
        setup = replace(_plain(1e-3), sending=way, send_s=1e-6, workers=workers)
        rows.append(((way, workers), run(operators, setup, inputs)))
    return Figure(name, title, ("sending", "workers"), rows)
