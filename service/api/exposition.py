"""What ``GET /metrics`` answers: the metrics of the glossary, read from the statuses of all apps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family

from service.api.metrics import METRICS, Metric
from service.bodies.status import Status


class Collector:
    """Reads all statuses once at each scrape."""

    def __init__(self, statuses: Callable[[], list[Status]]) -> None:
        self._statuses = statuses

    def collect(self) -> Iterator[Family]:
        statuses = self._statuses()
        for metric in METRICS:
            family = _family(metric)
            for status in statuses:
                for labels, value in metric.samples(status):
                    if value is not None:
                        family.add_metric([status.app, *labels], float(value))
            yield family


def exposition(statuses: Callable[[], list[Status]]) -> bytes:
    """The text that ``GET /metrics`` answers."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector(statuses))
    return generate_latest(registry)


def _family(metric: Metric) -> GaugeMetricFamily | CounterMetricFamily:
    make = GaugeMetricFamily if metric.kind == "gauge" else CounterMetricFamily
    return make(metric.name, f"{metric.meaning} Unit: {metric.unit}.", labels=["app", *metric.labels])
