"""The result of a prediction: one composition as a value, many as columns."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from compositions.capacity.costs import Array, lognormal_quantile


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction for one composition; values that depend on the input rate are None if the rate is unknown.

    Latencies (mean and percentiles) are infinite if the rate is at or above the capacity (``overloaded``).
    """

    throughput_per_s: float
    """Capacity: the highest rate that the composition can sustain, in items/s."""
    base_latency_s: float
    """Latency without any queue: service of the whole bundle, hops and shared cores; a lower bound of the mean."""
    latency_s: float | None
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None
    utilization: float | None
    """Input rate over capacity."""
    cpu_cores: float | None
    """Number of busy cores, hops included."""
    workers: int
    bottleneck_group: int
    """Index of the group with the least capacity."""
    limited_by: Literal["group", "cores", "gpus"]
    bundle_items: float = 1.0
    """Largest bundle size, in items."""

    @property
    def overloaded(self) -> bool:
        return self.utilization is not None and self.utilization >= 1.0

    def at(self, quantile: float | None) -> float | None:
        """Return the predicted latency at this quantile, in seconds; for ``None`` the mean."""
        if quantile is None or self.p50_s is None or self.p95_s is None or math.isinf(self.p95_s):
            return self.latency_s
        return float(lognormal_quantile(np.array(self.p50_s), np.array(self.p95_s), quantile))

    def statistic(self, name: str) -> float | None:
        """Return the predicted latency ``mean``, ``p50``, ``p95`` or ``p99``, in seconds."""
        value: float | None = self.latency_s if name == "mean" else getattr(self, f"{name}_s")
        return value


@dataclass(frozen=True, slots=True)
class Predictions:
    """Predictions of many compositions as columns, row ``i`` for the ``i``-th; NaN where ``Prediction`` has None."""

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
    limited_by_gpus: npt.NDArray[np.bool_]
    bundle_items: Array

    @classmethod
    def joined(cls, parts: "Sequence[tuple[npt.NDArray[np.intp], Predictions]]") -> Self:
        """Join predictions; each part is a pair of row numbers and the predictions of these rows."""
        order = np.argsort(np.concatenate([rows for rows, _ in parts]))
        names = [field.name for field in fields(cls)]
        return cls(**{name: np.concatenate([getattr(part, name) for _, part in parts])[order] for name in names})

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
            limited_by="gpus" if self.limited_by_gpus[row] else "cores" if self.limited_by_cores[row] else "group",
            bundle_items=float(self.bundle_items[row]),
        )

    def __iter__(self) -> Iterator[Prediction]:
        return map(self.__getitem__, range(len(self)))

    def at(self, quantile: float | None) -> Array:
        """Return the column of the latency at this quantile, in seconds; for ``None`` the mean."""
        known: dict[float | None, Array] = {None: self.latency_s, 0.5: self.p50_s, 0.95: self.p95_s, 0.99: self.p99_s}
        if quantile in known:
            return known[quantile]
        return np.where(
            np.isfinite(self.p95_s), lognormal_quantile(self.p50_s, self.p95_s, quantile or 0.0), self.p95_s
        )

    def statistic(self, name: str) -> Array:
        """Return the column of latency ``mean``, ``p50``, ``p95`` or ``p99``, in seconds."""
        column: Array = self.latency_s if name == "mean" else getattr(self, f"{name}_s")
        return column


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
