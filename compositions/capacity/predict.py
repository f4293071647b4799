"""What any composition would do, from the measured costs of the stages: throughput, latency, workers, CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from compositions.capacity.latency import Load, latency_at
from compositions.capacity.queueing import Array, percentiles
from compositions.capacity.table import CompositionTable
from compositions.errors import CompositionError, Fault
from compositions.model import Composition

PACED_ARRIVAL_CV = 0.1
"""Of the times between items of a source that keeps its pace; 1 would be independent users (Poisson)."""


@dataclass(frozen=True, slots=True)
class StageCost:
    """What a stage spends on an item while busy: mean wall and CPU time, coefficient of variation of the wall time."""

    service_s: float
    cpu_s: float
    cv: float = 0.0


@dataclass(frozen=True, slots=True)
class Prediction:
    """What one composition would do at the input rate; what depends on that rate is None when it is unknown.

    Latencies (mean and percentiles) are infinite when the rate is at or above the capacity (``overloaded``).
    """

    throughput_per_s: float
    """Capacity: the highest rate it can sustain."""
    base_latency_s: float
    """Service, hops and the sharing of cores, without any queue: a lower bound of the mean."""
    latency_s: float | None
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None
    utilization: float | None
    """Input rate over capacity."""
    cpu_cores: float | None
    """Cores kept busy, hops included."""
    workers: int
    bottleneck_group: int
    """Index of the group with the least capacity."""
    limited_by: Literal["group", "cores"]

    @property
    def overloaded(self) -> bool:
        return self.utilization is not None and self.utilization >= 1.0

    def statistic(self, name: str) -> float | None:
        """Predicted latency ``mean``, ``p50``, ``p95`` or ``p99``, in seconds."""
        value: float | None = self.latency_s if name == "mean" else getattr(self, f"{name}_s")
        return value


@dataclass(frozen=True, slots=True)
class Predictions:
    """``Prediction`` of many compositions as columns, row ``i`` for the ``i``-th; NaN stands where one has None."""

    throughput_per_s: Array
    base_latency_s: Array
    latency_s: Array
    p50_s: Array
    p95_s: Array
    p99_s: Array
    utilization: Array
    cpu_cores: Array
    workers: npt.NDArray[np.int64]
    bottleneck_group: npt.NDArray[np.int64]
    limited_by_cores: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.workers)

    def __getitem__(self, row: int) -> Prediction:
        return Prediction(
            throughput_per_s=float(self.throughput_per_s[row]),
            base_latency_s=float(self.base_latency_s[row]),
            latency_s=_known(self.latency_s[row]),
            p50_s=_known(self.p50_s[row]),
            p95_s=_known(self.p95_s[row]),
            p99_s=_known(self.p99_s[row]),
            utilization=_known(self.utilization[row]),
            cpu_cores=_known(self.cpu_cores[row]),
            workers=int(self.workers[row]),
            bottleneck_group=int(self.bottleneck_group[row]),
            limited_by="cores" if self.limited_by_cores[row] else "group",
        )

    def __iter__(self) -> Iterator[Prediction]:
        return map(self.__getitem__, range(len(self)))

    def statistic(self, name: str) -> Array:
        """The column of latency ``mean``, ``p50``, ``p95`` or ``p99``, in seconds."""
        column: Array = self.latency_s if name == "mean" else getattr(self, f"{name}_s")
        return column


def predict(
    composition: Composition,
    costs: Mapping[str, StageCost],
    *,
    cores: float,
    hop_s: float,
    input_rate_per_s: float | None,
    hop_cpu_s: float | None = None,
    arrival_cv: float = PACED_ARRIVAL_CV,
) -> Prediction:
    """``predict_all`` of one composition."""
    return predict_all(
        [composition],
        costs,
        cores=cores,
        hop_s=hop_s,
        input_rate_per_s=input_rate_per_s,
        hop_cpu_s=hop_cpu_s,
        arrival_cv=arrival_cv,
    )[0]


def predict_all(
    compositions: CompositionTable | Sequence[Composition],
    costs: Mapping[str, StageCost],
    *,
    cores: float,
    hop_s: float,
    input_rate_per_s: float | None,
    hop_cpu_s: float | None = None,
    arrival_cv: float = PACED_ARRIVAL_CV,
) -> Predictions:
    """Predicts compositions of one app; quick for a ``CompositionTable`` that is kept between calls.

    Capacity is that of the weakest group, ``replicas / (sum of service times + hop)``, or of the ``cores``,
    ``cores / sum of CPU times``, whichever is less. A hop into a group costs ``hop_s``, of which ``hop_cpu_s`` is CPU
    (all of it when not given). Latency adds the waits for workers, for cores and for earlier items; see ``latency``
    and ``queueing``. Percentiles take the latency as lognormal; against simulations they are too low (by up to 40 %)
    where many workers of very variable stages share cores that are nearly used up.

    Raises: CompositionError when a stage has no cost, or compositions arrange different stages.
    """
    table = compositions if isinstance(compositions, CompositionTable) else CompositionTable(compositions)
    load = _load(table, costs, hop_s, hop_s if hop_cpu_s is None else hop_cpu_s)
    # Work that costs nothing has no limit: dividing by its zero gives the infinity that is meant.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        group_rates = np.where(table.is_group, table.replicas / load.service_s, np.inf)
        core_rates = cores / load.cpu_s.sum(axis=1)
        capacity = np.minimum(group_rates.min(axis=1), core_rates)
        columns = _at_rate(table, load, capacity, cores, input_rate_per_s, arrival_cv)
    return Predictions(
        throughput_per_s=capacity,
        workers=table.workers,
        bottleneck_group=group_rates.argmin(axis=1),
        limited_by_cores=core_rates < group_rates.min(axis=1),
        **columns,
    )


def _load(table: CompositionTable, costs: Mapping[str, StageCost], hop_s: float, hop_cpu_s: float) -> Load:
    missing = [name for name in table.stages if name not in costs]
    if missing:
        known = ", ".join(costs) or "none"
        raise CompositionError([Fault("", f"there is no cost of stage {', '.join(missing)}; known are {known}")])
    per_stage = [costs[name] for name in table.stages]
    return Load(
        table.per_group([cost.service_s for cost in per_stage]) + hop_s * table.is_group,
        table.per_group([cost.cpu_s for cost in per_stage]) + hop_cpu_s * table.is_group,
        table.per_group([(cost.cv * cost.service_s) ** 2 for cost in per_stage]),
    )


def _at_rate(
    table: CompositionTable, load: Load, capacity: Array, cores: float, rate_per_s: float | None, arrival_cv: float
) -> dict[str, Array]:
    """The columns that depend on the input rate."""
    if rate_per_s is None:
        unknown = np.full(len(table), np.nan)
        names = ("latency_s", "p50_s", "p95_s", "p99_s", "utilization", "cpu_cores")
        return dict.fromkeys(names, unknown) | {"base_latency_s": load.service_s.sum(axis=1)}
    latency = latency_at(table, load, cores, rate_per_s, arrival_cv)
    latencies = {"latency_s": latency.mean_s} | {
        f"{name}_s": value for name, value in percentiles(latency.mean_s, latency.variance_s2).items()
    }
    return {name: np.where(rate_per_s < capacity, value, np.inf) for name, value in latencies.items()} | {
        "base_latency_s": latency.base_s,
        "utilization": rate_per_s / capacity,
        "cpu_cores": np.minimum(rate_per_s, capacity) * load.cpu_s.sum(axis=1),
    }


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
