"""The Prometheus metrics, whose names are stable; labels have bounded values: apps, stages, and fixed lists."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from time import time
from typing import Any

from control.decisions import State
from profiler.slo import SloStatus
from service.schemas.base import Answer
from service.schemas.figures import NodeBody, StageStatus
from service.schemas.status import BLOCKED_BY, Status

Sample = tuple[tuple[str, ...], float | None]
"""Label values, and the value; a value that was not measured (None) is left out, never shown as 0."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric. ``meaning`` is its help text; docs/operate/metrics.md says what to do about each metric."""

    name: str
    meaning: str
    samples: Callable[[Any], Iterator[Sample]]
    """Function that returns the samples of the status of an app, or of a node."""
    labels: tuple[str, ...] = ()
    unit_told: str | None = None
    """The unit, if the name does not end with it."""
    earlier: str | None = None
    """The metric's earlier name, without a unit, which is served beside the new name for one version."""

    @property
    def unit(self) -> str:
        if self.name.endswith("_items_per_second"):
            return "items per second"
        return self.unit_told or self.name.removesuffix("_total").rpartition("_")[2]


def _one(value: Callable[[Status], float | None]) -> Callable[[Status], Iterator[Sample]]:
    return lambda status: iter([((), value(status))])


def _each(part: Callable[[Status], Answer | None], scale: float = 1.0) -> Callable[[Status], Iterator[Sample]]:
    """Return one sample for each field of a part of the status, labelled with the field's name."""
    return lambda status: (((name,), _scaled(value, scale)) for name, value in part(status) or ())


def _stages(value: Callable[[StageStatus], float | None], scale: float = 1.0) -> Callable[[Status], Iterator[Sample]]:
    return lambda status: (((stage.name,), _scaled(value(stage), scale)) for stage in status.stages)


def _one_of(present: Callable[[Status], str], values: Iterable[str]) -> Callable[[Status], Iterator[Sample]]:
    """Return one sample for each possible state: 1 for the present one, else 0."""
    return lambda status: (((str(value),), float(present(status) == value)) for value in values)


_IN_BASE_UNITS = {"latency": 1e-3, "throughput": 1.0}
"""Factor from the unit of an SLO's target to seconds or items/s."""


def _slo_bound(status: Status) -> Iterator[Sample]:
    if status.requested.slo is None:
        return
    bounds: dict[str, float | None] = {}
    for each in status.requested.slo.objectives or [status.requested.slo]:
        bounds.setdefault(each.metric, each.bound)
    for metric, bound in bounds.items():
        yield (metric,), _scaled(bound, _IN_BASE_UNITS[metric])


def _bound_of(metric: str) -> Callable[[Status], Iterator[Sample]]:
    return lambda status: (((), value) for (label,), value in _slo_bound(status) if label == metric)


def _held_up(status: Status) -> Iterator[Sample]:
    if status.health.held_up_by is not None:
        yield from (((part,), float(part in status.health.held_up_by)) for part in BLOCKED_BY)


def _telemetry(status: Status) -> Iterator[Sample]:
    telemetry = status.resources.telemetry
    if telemetry is not None:
        yield ("written",), telemetry.written
        yield ("lost",), telemetry.lost


def _tables(status: Status) -> Iterator[Sample]:
    telemetry = status.resources.telemetry
    if telemetry is not None and telemetry.tables is not None and telemetry.tables.up_to is not None:
        yield (), time() - datetime.fromisoformat(telemetry.tables.up_to).timestamp()


def _cost(status: Status) -> Iterator[Sample]:
    if status.resources.cost is not None:
        yield ("worker",), status.resources.cost.worker_s
        yield ("cpu",), status.resources.cost.cpu_s
        if status.resources.cost.gpu_s:
            yield ("gpu",), status.resources.cost.gpu_s


def _worker_memory(status: Status) -> float | None:
    known = [worker.memory_bytes for worker in status.workers if worker.memory_bytes is not None]
    return float(sum(known)) if known else None


def _node_memory(node: NodeBody) -> Iterator[Sample]:
    yield ("total",), node.machine_memory_bytes
    yield ("free",), node.machine_memory_free_bytes
    yield ("workers",), node.workers_memory_bytes


def _gpu_memory(node: NodeBody) -> Iterator[Sample]:
    for at, gpu in enumerate(node.devices or ()):
        yield (str(at), "total"), gpu.memory_bytes
        yield (str(at), "used"), gpu.memory_used_bytes


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale


METRICS = (
    Metric("recompose_app_state", "State of the app, as in /status.",
           _one_of(lambda status: status.state, State), labels=("state",), unit_told="1 for the present state"),
    Metric("recompose_slo_status", "Whether the SLO is met, as in /status.",
           _one_of(lambda status: status.requested.slo_status, SloStatus), labels=("status",),
           unit_told="1 for the present status"),
    Metric("recompose_slo_bound",
           "Earlier name of recompose_slo_bound_seconds and recompose_slo_bound_items_per_second.",
           _slo_bound, labels=("metric",), unit_told="seconds (latency) or items per second (throughput)"),
    Metric("recompose_slo_bound_seconds", "Latency above which the SLO counts as violated.",
           _bound_of("latency")),
    Metric("recompose_slo_bound_items_per_second", "Throughput below which the SLO counts as violated.",
           _bound_of("throughput")),
    Metric("recompose_held_up", "Part that holds the stream up: workers, source, journal, sink, backlog or stages.",
           _held_up, labels=("reason",), unit_told="1 while the reason holds"),
    Metric("recompose_input_items_per_second", "Rate of items that the source offers.",
           _one(lambda status: status.input_rate_per_s), earlier="recompose_input_rate"),
    Metric("recompose_offered_items_per_second",
           "Rate of items that are due or arrive, even if the source cannot read them in time.",
           _one(lambda status: status.demand.offered_per_s), earlier="recompose_offered_rate"),
    Metric("recompose_admitted_items_per_second", "Rate of items that the app admits.",
           _one(lambda status: status.demand.admitted_per_s), earlier="recompose_admitted_rate"),
    Metric("recompose_missed_items_total",
           "Items that were due but never read, or that a push source refused, since the runner started.",
           _one(lambda status: status.demand.missed)),
    Metric("recompose_refused_items_total",
           "Rows and messages of the source that the app refused, since the runner started.",
           _one(lambda status: status.demand.refused)),
    Metric("recompose_lag_seconds", "Time for which the next item to be read has been overdue.",
           _one(lambda status: status.demand.lag_s)),
    Metric("recompose_throughput_items_per_second", "Rate of items that are delivered.",
           _one(lambda status: status.throughput_per_s), earlier="recompose_throughput"),
    Metric("recompose_latency_seconds",
           "Time from when an item was due, or arrived, to its delivery at the sink, over the monitor's window.",
           _each(lambda status: status.latency_ms, 1e-3), labels=("statistic",)),
    Metric("recompose_latency_from_read_seconds", "Latency measured from when an item was read, as in the papers.",
           _each(lambda status: status.demand.latency_from_read_ms, 1e-3), labels=("statistic",)),
    Metric("recompose_items_total",
           "Items accepted, delivered, failed (dead letters) and shed since the runner started.",
           _each(lambda status: status.items), labels=("outcome",)),
    Metric("recompose_queued_items", "Items admitted that no worker has started.",
           _one(lambda status: status.queued)),
    Metric("recompose_in_flight_items", "Items inside the composition.",
           _one(lambda status: status.in_flight)),
    Metric("recompose_bundle_size_items", "Maximum number of items per bundle.",
           _one(lambda status: status.requested.batching.size if status.requested.batching else None),
           earlier="recompose_bundle_size"),
    Metric("recompose_stage_service_time_seconds", "Mean time that a stage works on an item.",
           _stages(lambda stage: stage.service_time_ms, 1e-3), labels=("stage",)),
    Metric("recompose_stage_cpu_time_seconds", "Mean CPU time that a stage uses for an item.",
           _stages(lambda stage: stage.cpu_time_ms, 1e-3), labels=("stage",)),
    Metric("recompose_stage_bottleneck", "1 when the stage is tagged as a bottleneck.",
           _stages(lambda stage: stage.bottleneck), labels=("stage",), unit_told="0 or 1"),
    Metric("recompose_workers", "Worker processes of the app, including warm spares.",
           _one(lambda status: len(status.workers))),
    Metric("recompose_worker_memory_bytes", "Total resident memory of the app's workers on the runner's machine.",
           _one(_worker_memory)),
    Metric("recompose_workers_in_use", "Workers bound to a group of the active composition.",
           _one(lambda status: status.resources.cost.workers if status.resources.cost else None), unit_told="workers"),
    Metric("recompose_cost_seconds_total",
           "Worker-seconds in use, CPU time of the workers and seconds of GPUs reserved, since the runner started.",
           _cost, labels=("kind",)),
    Metric("recompose_switches_total", "Changes of the active composition since the runner started.",
           _one(lambda status: status.changes.switches)),
    Metric("recompose_resizes_total", "Switches that changed only numbers of replicas, in place.",
           _one(lambda status: status.changes.resizes), unit_told="switches"),
    Metric("recompose_drain_estimate_seconds", "Upper estimate of the time to drain the active composition.",
           _one(lambda status: _scaled(status.drain.estimate_ms, 1e-3))),
    Metric("recompose_telemetry_records_total",
           "Records of telemetry written to disk, and lost because the disk was full or too slow.",
           _telemetry, labels=("outcome",)),
    Metric("recompose_tables_lag_seconds",
           "Age of the oldest records that the tables of telemetry may lack; equal for all apps.", _tables),
    Metric("recompose_runner_restarts_total", "Runners that replaced a runner that died, since the daemon started.",
           _one(lambda status: status.supervision.runner_restarts)),
)  # fmt: skip

NODE_METRICS = (
    Metric("recompose_node_memory_bytes",
           "Memory of a node: total, free, and used by workers.",
           _node_memory, labels=("kind",)),
    Metric("recompose_gpu_busy_ratio", "Share of about the last second in which any process used the GPU.",
           lambda node: (((str(at),), gpu.busy) for at, gpu in enumerate(node.devices or ())), labels=("gpu",),
           unit_told="0 to 1"),
    Metric("recompose_gpu_memory_bytes", "Memory of a GPU.", _gpu_memory, labels=("gpu", "kind")),
)  # fmt: skip
"""Metrics of each node, with its id and address as labels."""
