"""Operators of a simulated pipeline, their serial run, and the bound on the throughput of any schedule."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, sqrt
from pathlib import Path
from typing import Any

from compositions.model import StageKind

WORD = 2**32


def mixed(value: int) -> int:
    """Return a number of 32 bits that looks random, but is the same everywhere."""
    value = (value ^ (value >> 16)) * 0x45D9F3B & 0xFFFFFFFF
    value = (value ^ (value >> 16)) * 0x45D9F3B & 0xFFFFFFFF
    return value ^ (value >> 16)


@dataclass(frozen=True, slots=True)
class Operator:
    """Values are whole numbers of 32 bits. Outputs of one depend on it, and on all before it that share its state."""

    name: str
    kind: StageKind
    cost_s: float
    """Mean time of a tuple."""
    selectivity: float = 1.0
    """Mean number of outputs per tuple; their number is this value, rounded up or down depending on the tuple."""
    partitions: int = 100
    """Partitions of a partitioned operator (100 in section 7.2)."""
    cv: float = 0.0
    """Coefficient of variation of a tuple's time, which is spread evenly; by the value, so alike in every run."""
    bounds: tuple[float, ...] = ()
    """Cumulated shares of the partitions of values, up to 1; none: all alike."""

    def most_workers(self, workers: int) -> int:
        """Return its maximal parallelism with ``workers`` (section 6)."""
        if self.kind is StageKind.STATELESS:
            return workers
        return 1 if self.kind is StageKind.STATEFUL else min(workers, self.partitions)

    def partition(self, value: int) -> int:
        if self.kind is not StageKind.PARTITIONED:
            return 0
        key = mixed(value ^ 0x9E3779B9)
        return _place(self.bounds, key / WORD) if self.bounds else key % self.partitions

    def time_s(self, value: int) -> float:
        if not self.cv:
            return self.cost_s
        return self.cost_s * (1 + self.cv * sqrt(3) * (2 * mixed(value ^ 0x1F123BB5) / WORD - 1))

    def outputs(self, value: int, state: int) -> tuple[list[int], int]:
        """Return the outputs of a tuple, and the state after it. With a state, outputs depend on all tuples before."""
        if self.kind is not StageKind.STATELESS:
            state = (31 * state + value + 1) % WORD
        count = int(self.selectivity) + (mixed(value ^ 0x5BD1E995) / WORD < self.selectivity % 1)
        return [mixed(value + 7919 * number + state) for number in range(count)], state

    @property
    def heaviest_share(self) -> float:
        """Return the share of tuples that must be run one by one."""
        if self.kind is StageKind.STATELESS:
            return 0.0
        if self.kind is StageKind.STATEFUL:
            return 1.0
        shares = [self.bounds[0], *(high - low for low, high in pairwise(self.bounds))] if self.bounds else []
        return max(shares, default=1 / self.partitions)


def _place(bounds: tuple[float, ...], share: float) -> int:
    """Return the partition of a value, by bisection."""
    low, high = 0, len(bounds) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if share < bounds[middle] else (middle + 1, high)
    return low


def serial_run(operators: Sequence[Operator], inputs: Iterable[int]) -> list[int]:
    """Return the results of the inputs one after the other: every other run must give the same, in this order."""
    values = list(inputs)
    for operator in operators:
        states: dict[int, int] = {}
        following: list[int] = []
        for value in values:
            partition = operator.partition(value)
            given, states[partition] = operator.outputs(value, states.get(partition, 0))
            following += given
        values = following
    return values


def work_s(operators: Sequence[Operator]) -> float:
    """Return the time of all operators for an input of the pipeline and for its outputs."""
    return sum(each_s for each_s, _ in _works(operators))


def bound_per_s(operators: Sequence[Operator], workers: int) -> float:
    """Return the inputs per second that no schedule exceeds: by the workers' time, and by what must run one by one."""
    one_by_one_s = max(each_s * operator.heaviest_share for each_s, operator in _works(operators))
    return min(workers / work_s(operators), 1 / one_by_one_s if one_by_one_s else inf)


def _works(operators: Sequence[Operator]) -> Iterator[tuple[float, Operator]]:
    arriving = 1.0
    for operator in operators:
        yield arriving * operator.cost_s, operator
        arriving *= operator.selectivity


CV = 0.3
"""Variation of a tuple's time. It was not measured for each: reading the clock takes as long as a light stage."""


def read_costs(path: Path) -> dict[str, list[Operator]]:
    """Return the pipelines of the queries from a file like ``lab/benchmarks/query_costs.json``."""

    def operator(each: dict[str, Any]) -> Operator:
        kind, cost_s = StageKind(each["kind"]), each["cost_us"] / 1e6
        return Operator(each["name"], kind, cost_s, each["selectivity"], each["partitions"], CV)

    queries = json.loads(path.read_text(encoding="utf-8"))["queries"]
    return {name: list(map(operator, stages)) for name, stages in queries.items()}
