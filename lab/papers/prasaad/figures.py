"""Figures 8 to 14 of Prasaad et al., and further comparisons of schedulers and worklists.

The cases of each figure are defined here. In virtual time they run unchanged, on real cores (``lab.benchmarks.ordered
--on threads``) slowed down, so that a message costs little beside a tuple.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, product
from math import erf, inf, sqrt
from pathlib import Path
from statistics import median
from typing import Any

from apps.tpcxbb.generate import Plan as Tables
from compositions.batch_settings import SchedulerSettings
from compositions.dynamic import SCHEDULER_NAMES
from compositions.model import StageKind
from lab.papers.prasaad.operators import Operator, mixed, work_s
from lab.papers.prasaad.plant import Setup
from lab.papers.prasaad.runs import OVERLOAD, Run, run
from lab.papers.prasaad.station import Sending
from lab.papers.prasaad.worklists import QueueName

Pipelines = Mapping[str, Sequence[Operator]]
Cell = str | float
Metric = Callable[[Run], float]
MOST_WORKERS = 16
CORES = (2, 4, 8, 12, MOST_WORKERS)
RUNS = 3
"""Number of runs, as in the paper (section 7), each with another stream of inputs."""
TITLES = {
    "8": "schedulers on the queries",
    "8-ask": "LP and CT over the price of a question, as a share of an input's work",
    "8-source": "ET with a source that waits",
    "ct": "CT as printed and corrected",
    "9": "skewed keys",
    "moved": "hybrid queue and owners where a state costs something to move",
    "10": "latency over the cost of a tuple",
    "11": "worklists on the queries",
    "11-keys": "worklists on the queries, users and items as frequent as in the generated tables",
    "12": "sending after a light operator",
    "13": "sending many outputs",
    "14": "sending on the queries",
}
PUBLISHED = ("qst", "lp", "et", "ct")

SLICE, WINDOW, ASK, SEND, CROWDING = 5.0, 50.0, 0.05, 0.005, 0.02
CAPACITY = 100
"""Slice, window, a question and an output as multiples of what an input of the pipeline costs, for queries differ by
fifty times in that; what a further worker at an operator adds; and QST's ``C``. All assumed: the paper gives none."""
ASKS, SENDS = (0.05, 0.1, 0.2, 0.3), (0.05, 0.1, 0.2)
INGRESS = 100
"""Inputs that may wait at the source: the paper names none, and says that ET depends on it (section 7.1)."""
RING = 8192
LEAST_WINDOW_S = 1e-5
"""Shortest window, in seconds."""
QUEUES: tuple[QueueName, ...] = ("hybrid", "partitioned")
FREQUENT = {
    ("q2", "sessions"): Tables.users, ("q3", "before"): Tables.users, ("q4", "sessions"): Tables.users,
    ("q2", "count"): Tables.items, ("q3", "count"): Tables.items,
}  # fmt: skip
"""Number of keys of the operators whose keys differ in frequency: users and items. Tickets and pairs of query 1 and the
ten categories of query 15 are taken as even."""
FINE = 100
"""Number of partitions, if the workers do not limit it (section 7.2)."""
SIGMAS = (0.1, 0.2, 0.3, 0.4, 0.5, 1.0, 2.0)
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
    """The cases of a figure, and the names of the varied parameters."""

    name: str
    title: str
    varies: tuple[str, ...]
    cases: Sequence[Case]

    def made(self, runs: int = RUNS) -> Figure:
        """Run all cases in virtual time, each with ``runs`` different streams of inputs."""
        rows = {
            each.varied: [run(each.operators, each.setup, each.inputs, each.load, stream) for stream in range(runs)]
            for each in self.cases
        }
        return Figure(self.name, self.title, self.varies, rows)


@dataclass(frozen=True, slots=True)
class Figure:
    """A table of runs by the varied parameters."""

    name: str
    title: str
    varies: tuple[str, ...]
    rows: Mapping[tuple[Cell, ...], Sequence[Run]]

    def values(self, metric: Metric, *varied: Cell) -> list[float]:
        """Return the metric of each run of a case. Raises: KeyError for an unknown case."""
        return [metric(each) for each in self.rows[varied]]

    def median(self, metric: Metric, *varied: Cell) -> float:
        """Return the median over the runs of a case."""
        return median(self.values(metric, *varied))

    def seen(self, column: str) -> list[Any]:
        """Return the values of a column, in their order."""
        at = self.varies.index(column)
        return list(dict.fromkeys(varied[at] for varied in self.rows))

    def write(self, folder: Path) -> None:
        """Write ``figure-NAME.csv``: a line for each run."""
        head = [*self.varies, "run", *Run._fields]
        lines = [
            [*varied, number, *each[:-1], " ".join(map(str, each.longest))]
            for varied, runs in self.rows.items()
            for number, each in enumerate(runs, 1)
        ]
        with (folder / f"figure-{self.name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([head, *lines])

    @classmethod
    def read(cls, folder: Path, name: str) -> Figure:
        """Return what ``write`` wrote. Raises: OSError, ValueError when it is not there or not such a file."""
        with (folder / f"figure-{name}.csv").open(newline="", encoding="utf-8") as file:
            head, *lines = list(csv.reader(file))
        count = head.index("run")
        rows: dict[tuple[Cell, ...], list[Run]] = {}
        for line in lines:
            longest = tuple(map(int, line[-1].split()))
            per_s, latency_ms, bound_per_s, worker_us = map(float, line[count + 1 : -1])
            each = Run(per_s, latency_ms, bound_per_s, worker_us, longest)
            rows.setdefault(tuple(map(_cell, line[:count])), []).append(each)
        return cls(name, TITLES.get(name, name), tuple(head[:count]), rows)


def _cell(text: str) -> Cell:
    try:
        return float(text)
    except ValueError:
        return text


def schedulers(pipelines: Pipelines, inputs: int, cores: Sequence[int] = CORES) -> Plan:
    """Return the plan of figure 8: the heuristics on the queries over the cores, overloaded."""
    cases = [
        Case((query, name, workers), operators, replace(usual(operators), scheduler=name, workers=workers), inputs)
        for (query, operators), name, workers in product(pipelines.items(), SCHEDULER_NAMES, cores)
    ]
    return Plan("8", TITLES["8"], ("query", "scheduler", "workers"), cases)


def asked(pipelines: Pipelines, inputs: int) -> Plan:
    """Figure 8 with other prices of a question, for the two schedulers that the paper finds best: it answers one worker
    at a time, and LP asks more often where the operators behind have little input."""
    cases = [
        Case((query, price, name), operators, replace(usual(operators, price), scheduler=name), inputs)
        for (query, operators), price, name in product(pipelines.items(), ASKS, ("ct", "lp"))
    ]
    return Plan("8-ask", TITLES["8-ask"], ("query", "ask", "scheduler"), cases)


def ingress(pipelines: Pipelines, inputs: int) -> Plan:
    """Return the plan of figure 8 for ET with a source that waits if this many inputs wait."""
    cases = [
        Case((query, limit), operators, replace(usual(operators), scheduler="et", ingress=limit), inputs)
        for (query, operators), limit in product(pipelines.items(), (INGRESS, 10 * INGRESS, inf))
    ]
    return Plan("8-source", TITLES["8-source"], ("query", "ingress"), cases)


def errata(inputs: int) -> Plan:
    """``ct`` as printed and corrected, on selectivities 1, 0.01, 1 and equal costs (equation 3)."""
    operators = [
        Operator(name, StageKind.STATELESS, 1e-5, given) for name, given in (("a", 1.0), ("b", 0.01), ("c", 1.0))
    ]
    setup, cases = usual(operators), []
    for form, count in product(("corrected", "printed"), (inputs, 2 * inputs)):
        by_form = replace(setup, settings=replace(setup.settings, selectivity=form))
        cases.append(Case((form, count), operators, by_form, count))
    return Plan("ct", TITLES["ct"], ("form", "inputs"), cases)


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
    return Plan("9", TITLES["9"], ("mean", "sigma", "queue"), cases)


def waiting(inputs: int, costs_us: Sequence[int] = COSTS_US, workers: int = MOST_WORKERS) -> Plan:
    """Return the plan of figure 10: latency at several costs of a tuple, keys spread evenly, at 0.9 of the bound."""
    cases = []
    for cost_us, queue in product(costs_us, QUEUES):
        setup = replace(_plain(cost_us / 1e5, workers), queue=queue)
        operator = keyed(cost_us / 1e6, partitions(queue, workers))
        cases.append(Case((cost_us, queue), [operator], setup, inputs, load=0.9))
    return Plan("10", TITLES["10"], ("cost_us", "queue"), cases)


def queues(pipelines: Pipelines, inputs: int, cores: Sequence[int] = CORES, name: str = "11") -> Plan:
    """Figure 11: the worklists on the queries under ``ct``; partitioned ones with a partition a worker at most.
    ``11-keys``: with ``FREQUENT`` keys instead of even ones."""
    cases = []
    for (query, stages), queue, workers in product(pipelines.items(), QUEUES, cores):
        most = partitions(queue, workers)
        operators = [replace(each, partitions=min(each.partitions, most)) for each in stages]
        if name == "11-keys":
            keys = [FREQUENT.get((query, each.name)) for each in operators]
            operators = [
                replace(each, bounds=zipf_bounds(count, each.partitions)) if count else each
                for each, count in zip(operators, keys, strict=True)
            ]
        setup = replace(usual(operators), queue=queue, workers=workers)
        cases.append(Case((query, queue, workers), operators, setup, inputs))
    return Plan(name, TITLES[name], ("query", "queue", "workers"), cases)


def light(inputs: int, cores: Sequence[int] = (1, *CORES)) -> Plan:
    """Return the plan of figure 12: one stateless operator of 20 µs; sending an output takes 1 µs more."""
    operators = [Operator("light", StageKind.STATELESS, 2e-5, cv=0.3)]
    return _sending(Plan("12", TITLES["12"], (), ()), operators, inputs, cores)


def many_outputs(inputs: int, cores: Sequence[int] = (1, *CORES)) -> Plan:
    """Figure 13: a stateless operator of 100 µs that gives 50 outputs, and a partitioned one of 100 µs."""
    operators = [Operator("flat map", StageKind.STATELESS, 1e-4, 50.0, cv=0.3), keyed(1e-4, FINE)]
    return _sending(Plan("13", TITLES["13"], (), ()), operators, inputs, cores)


def sending(pipelines: Pipelines, inputs: int) -> Plan:
    """Return the plan of figure 14: the two ways to send on the queries, under ``ct``, by the price of an output."""
    cases = []
    for (query, operators), price, way in product(pipelines.items(), SENDS, SENDING):
        setup = replace(usual(operators), sending=way, send_s=price * work_s(operators))
        cases.append(Case((query, price, way), operators, setup, inputs))
    return Plan("14", TITLES["14"], ("query", "price", "sending"), cases)


def moved(inputs: int, prices_us: Sequence[float], sigmas: Sequence[float] = (0.2, 0.4, 2.0)) -> Plan:
    """Figure 9 where the state of a partition lies in a worker, and costs something to bring to another: the hybrid
    queue, of which any worker draws the next key, against owners with rebalancing. One operator of 100 µs."""
    cases = []
    designs: tuple[QueueName, ...] = ("hybrid", "owned")
    for sigma, price_us, queue in product(sigmas, prices_us, designs):
        operator = keyed(1e-4, FINE, normal_bounds(sigma, FINE))
        setup = replace(_plain(1e-3), queue=queue, move_s=price_us / 1e6)
        cases.append(Case((sigma, price_us, queue), [operator], setup, inputs))
    return Plan("moved", TITLES["moved"], ("sigma", "move_us", "queue"), cases)


def all_of(pipelines: Pipelines, inputs: int, prices_us: Sequence[float]) -> Iterator[Plan]:
    """Yield all figures in the order of the paper; ``prices_us``: of bringing a state to another worker."""
    yield schedulers(pipelines, inputs)
    yield asked(pipelines, inputs)
    yield ingress(pipelines, inputs)
    yield errata(inputs)
    yield skew(inputs)
    yield moved(inputs, prices_us)
    yield waiting(inputs)
    yield queues(pipelines, inputs)
    yield queues(pipelines, inputs, (MOST_WORKERS,), "11-keys")
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


def zipf_bounds(keys: int, count: int) -> tuple[float, ...]:
    """Return cumulated shares of ``count`` partitions by hash of so many keys, as frequent as the generator's."""
    shares = [0.0] * count
    for rank in range(1, keys + 1):
        shares[mixed(rank) % count] += rank**-Tables.zipf
    return tuple(each / sum(shares) for each in accumulate(shares))


def usual(operators: Sequence[Operator], ask: float = ASK) -> Setup:
    """Return the setup for a whole pipeline; ``ask``: price of a question, as a share of an input's work."""
    unit_s = work_s(operators)
    window_s = max(WINDOW * unit_s, LEAST_WINDOW_S)
    return Setup(
        workers=MOST_WORKERS, ring_slots=RING, ingress=INGRESS,
        ask_s=ask * unit_s, send_s=SEND * unit_s, crowding=CROWDING,
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
