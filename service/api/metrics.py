"""The Prometheus metrics: a glossary that is a contract (:mod:`service.api.exposition` fills it at each scrape).

Labels are bounded: apps and stages come from the registered code, everything else from fixed lists of the API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from control.decisions import State
from profiler.slo import SloStatus
from service.bodies.base import Answer
from service.bodies.figures import StageStatus
from service.bodies.status import Status

Sample = tuple[tuple[str, ...], float | None]
"""Label values, and the value; None (not measured) is left out, never shown as 0."""


@dataclass(frozen=True, slots=True)
class Metric:
    """``meaning`` is the help text; ``action`` says what to do about it."""

    name: str
    kind: Literal["gauge", "counter"]
    unit: str
    labels: tuple[str, ...]
    meaning: str
    action: str
    samples: Callable[[Status], Iterator[Sample]]


def _one(value: Callable[[Status], float | None]) -> Callable[[Status], Iterator[Sample]]:
    def samples(status: Status) -> Iterator[Sample]:
        yield (), value(status)

    return samples


def _each(part: Callable[[Status], Answer], scale: float = 1.0) -> Callable[[Status], Iterator[Sample]]:
    """One sample for each field of a part of the status, labelled by the field's name."""

    def samples(status: Status) -> Iterator[Sample]:
        for name, value in part(status):
            yield (name,), _scaled(value, scale)

    return samples


def _stages(value: Callable[[StageStatus], float | None], scale: float = 1.0) -> Callable[[Status], Iterator[Sample]]:
    def samples(status: Status) -> Iterator[Sample]:
        for stage in status.stages:
            yield (stage.name,), _scaled(value(stage), scale)

    return samples


def _one_of(present: Callable[[Status], str], values: Iterable[str]) -> Callable[[Status], Iterator[Sample]]:
    """A state as one sample for each possible value, 1 for the present one."""

    def samples(status: Status) -> Iterator[Sample]:
        for value in values:
            yield (str(value),), float(present(status) == value)

    return samples


_IN_BASE_UNITS = {"latency": 1e-3, "throughput": 1.0}
"""From the unit of an SLO's target to seconds and items/s."""


def _slo_bound(status: Status) -> Iterator[Sample]:
    if status.slo is None:
        return
    bounds: dict[str, float | None] = {}
    for each in status.slo.objectives or [status.slo]:
        bounds.setdefault(each.metric, each.bound)
    for metric, bound in bounds.items():
        yield (metric,), _scaled(bound, _IN_BASE_UNITS[metric])


def _from_read(status: Status) -> Iterator[Sample]:
    latency = status.latency_from_read_ms
    return iter(()) if latency is None else _each(lambda _: latency, 1e-3)(status)


def _telemetry(status: Status) -> Iterator[Sample]:
    telemetry = status.telemetry
    if telemetry is not None:
        yield ("written",), telemetry.written
        yield ("lost",), telemetry.lost


def _cost(status: Status) -> Iterator[Sample]:
    if status.cost is not None:
        yield ("worker",), status.cost.worker_s
        yield ("cpu",), status.cost.cpu_s


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale


METRICS = (
    Metric(
        "recompose_app_state", "gauge", "1 for the present state", ("state",),
        "State of the app, as in /status.",
        "failed for a minute: read the failure in /status and the log; the app no longer runs.",
        _one_of(lambda status: status.state, State),
    ),
    Metric(
        "recompose_slo_status", "gauge", "1 for the present status", ("status",),
        "Whether the SLO is met, as in /status.",
        "infeasible: give more cores or relax the SLO. violated for minutes: look at /decisions for why nothing helps.",
        _one_of(lambda status: status.slo_status, SloStatus),
    ),
    Metric(
        "recompose_slo_bound", "gauge", "seconds (latency) or items per second (throughput)", ("metric",),
        "Value beyond which the SLO counts as violated.",
        "Draw it beside the measured value.",
        _slo_bound,
    ),
    Metric(
        "recompose_input_rate", "gauge", "items per second", (),
        "Items offered by the source.",
        "Above throughput for long: the app falls behind; see recompose_queued_items.",
        _one(lambda status: status.input_rate_per_s),
    ),
    Metric(
        "recompose_offered_rate", "gauge", "items per second", (),
        "Items due, or come by themselves, whether the source gets to them or not.",
        "Above the admitted rate: the source is held back; see recompose_lag_seconds.",
        _one(lambda status: status.offered_per_s),
    ),
    Metric(
        "recompose_admitted_rate", "gauge", "items per second", (),
        "Items that entered.",
        "Below the offered rate for long: the load is more than the active composition can do.",
        _one(lambda status: status.admitted_per_s),
    ),
    Metric(
        "recompose_missed_items_total", "counter", "items", (),
        "Items that were due and never read, or refused by a push source, since the runner started.",
        "Grows: the source is held back for longer than it makes up for (setting catch_up_s).",
        _one(lambda status: status.missed),
    ),
    Metric(
        "recompose_lag_seconds", "gauge", "seconds", (),
        "How long the next item to be read has been due.",
        "Grows: more is asked for than comes out; see /decisions for what limits.",
        _one(lambda status: status.lag_s),
    ),
    Metric(
        "recompose_throughput", "gauge", "items per second", (),
        "Items delivered.",
        "Below the input rate: the active composition is too slow, or a switch is under way.",
        _one(lambda status: status.throughput_per_s),
    ),
    Metric(
        "recompose_latency_seconds", "gauge", "seconds", ("statistic",),
        "From when an item was due, or came, to its delivery at the sink, over the monitor's window.",
        "Above the bound: the manager reacts within its check interval; if not, see /decisions.",
        _each(lambda status: status.latency_ms, 1e-3),
    ),
    Metric(
        "recompose_latency_from_read_seconds", "gauge", "seconds", ("statistic",),
        "The same from when an item was read, as the papers measure.",
        "Far below recompose_latency_seconds: the source is held back.",
        _from_read,
    ),
    Metric(
        "recompose_items_total", "counter", "items", ("outcome",),
        "Items accepted, delivered, failed (dead letters) and shed since the runner started.",
        "failed grows: read the dead-letter file. shed grows: the input is above what this machine can do.",
        _each(lambda status: status.items),
    ),
    Metric(
        "recompose_queued_items", "gauge", "items", (),
        "Items admitted that no worker has started.",
        "Grows steadily: the input rate is above the capacity of the active composition.",
        _one(lambda status: status.queued),
    ),
    Metric(
        "recompose_in_flight_items", "gauge", "items", (),
        "Items inside the composition.",
        "Zero with queued items: no worker is alive; see recompose_workers.",
        _one(lambda status: status.in_flight),
    ),
    Metric(
        "recompose_bundle_size", "gauge", "items", (),
        "Items that may travel together, at most.",
        "Grows where the hops of single items cost much beside their work; batching in /status has the reason.",
        _one(lambda status: status.batching.size if status.batching else None),
    ),
    Metric(
        "recompose_stage_service_time_seconds", "gauge", "seconds", ("stage",),
        "Mean time a stage spends on an item while busy.",
        "Rises without a new kind of input: the cores are shared with something else (compare the CPU time).",
        _stages(lambda stage: stage.service_time_ms, 1e-3),
    ),
    Metric(
        "recompose_stage_cpu_time_seconds", "gauge", "seconds", ("stage",),
        "Mean CPU time a stage spends on an item.",
        "Far below the service time: the stage waits (disk, network, another process).",
        _stages(lambda stage: stage.cpu_time_ms, 1e-3),
    ),
    Metric(
        "recompose_stage_bottleneck", "gauge", "0 or 1", ("stage",),
        "1 when the stage is tagged as a bottleneck.",
        "None needed: compositions that replicate it are preferred.",
        _stages(lambda stage: stage.bottleneck),
    ),
    Metric(
        "recompose_workers", "gauge", "workers", (),
        "Worker processes of the app, warm spares included.",
        "Zero while running: workers cannot start; see the log and Ray's resources.",
        _one(lambda status: len(status.workers)),
    ),
    Metric(
        "recompose_workers_in_use", "gauge", "workers", (),
        "Workers bound to a group of the active composition.",
        "Compare with recompose_workers: the others are warm spares.",
        _one(lambda status: status.cost.workers if status.cost else None),
    ),
    Metric(
        "recompose_cost_seconds_total", "counter", "seconds", ("kind",),
        "Worker-seconds in use, and CPU time of the workers, since the runner started.",
        "None needed: its rate is what the app takes.",
        _cost,
    ),
    Metric(
        "recompose_switches_total", "counter", "switches", (),
        "Changes of the active composition since the runner started.",
        "More than a few an hour under a steady input: raise the SLO's threshold.",
        _one(lambda status: status.switches),
    ),
    Metric(
        "recompose_resizes_total", "counter", "switches", (),
        "Those of the changes that were made in place: numbers of replicas alone.",
        "None needed: they cost the stream nothing.",
        _one(lambda status: status.resizes),
    ),
    Metric(
        "recompose_drain_estimate_seconds", "gauge", "seconds", (),
        "How long a drain of the active composition would take at most.",
        "None needed.",
        _one(lambda status: _scaled(status.drain.estimate_ms, 1e-3)),
    ),
    Metric(
        "recompose_telemetry_records_total", "counter", "records", ("outcome",),
        "Records of telemetry written to disk, and lost because the disk was full or too slow.",
        "lost grows: look at telemetry.fault in /status; items are not affected.",
        _telemetry,
    ),
    Metric(
        "recompose_runner_restarts_total", "counter", "restarts", (),
        "Runners started in place of one that died, since the daemon started.",
        "Grows: the runner process is killed (out of memory?); see the log.",
        _one(lambda status: status.runner_restarts),
    ),
)  # fmt: skip
