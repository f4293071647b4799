"""The exposition, read back by Prometheus' own parser."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from apps import registry
from compositions.batching import Batching
from control.decisions import State
from service.api.exposition import exposition
from service.api.metrics import METRICS
from service.bodies.batching import BatchingStatus, Held
from service.bodies.figures import Cost, Items, Latency
from service.bodies.slo import SloInForce
from service.bodies.spec import RunSpec
from service.bodies.status import Status, resting

STATUS = resting(registry.find("synthetic"), State.STABLE, RunSpec(app="synthetic"), None).model_copy(
    update={
        "slo": SloInForce(metric="latency", target=400.0, threshold=0.2, statistic="mean", bound=480.0),
        "slo_status": "met",
        "input_rate_per_s": 10.0,
        "latency_ms": Latency(mean=181.0, p50=170.0, p95=None, p99=None),
        "items": Items(accepted=5, delivered=4, failed=1, shed=0),
        "cost": Cost(cores=2, workers=5, spares=1, worker_s=60.0, cpu_s=None, cpu_cores=None),
        "offered_per_s": 45.0,
        "admitted_per_s": 25.0,
        "missed": 7,
        "lag_s": 6.5,
    }
)


def samples(statuses: list[Status]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    text = exposition(lambda: statuses).decode()
    families = text_string_to_metric_families(text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def value(name: str, **labels: str) -> float | None:
    return samples([STATUS]).get((name, frozenset({"app": "synthetic", **labels}.items())))


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("recompose_app_state", {"state": "stable"}, 1.0),
        ("recompose_app_state", {"state": "failed"}, 0.0),
        ("recompose_slo_bound", {"metric": "latency"}, 0.48),
        ("recompose_input_rate", {}, 10.0),
        ("recompose_latency_seconds", {"statistic": "mean"}, 0.181),
        ("recompose_items_total", {"outcome": "failed"}, 1.0),
        ("recompose_workers_in_use", {}, 5.0),
        ("recompose_cost_seconds_total", {"kind": "worker"}, 60.0),
        ("recompose_stage_bottleneck", {"stage": "f1"}, 0.0),
        ("recompose_offered_rate", {}, 45.0),
        ("recompose_admitted_rate", {}, 25.0),
        ("recompose_missed_items_total", {}, 7.0),
        ("recompose_lag_seconds", {}, 6.5),
    ],
)
def test_values_in_base_units(name: str, labels: dict[str, str], expected: float) -> None:
    assert value(name, **labels) == pytest.approx(expected)


def test_the_size_of_bundles_in_use() -> None:
    batching = BatchingStatus.of(Batching(), Held("auto", None, 32, "a hop shows"))
    key = ("recompose_bundle_size", frozenset({("app", "synthetic")}))
    assert samples([STATUS.model_copy(update={"batching": batching})])[key] == 32
    assert key not in samples([STATUS])


def test_what_is_not_measured_is_absent_never_zero() -> None:
    assert value("recompose_throughput") is None
    assert value("recompose_latency_seconds", statistic="p95") is None
    assert value("recompose_stage_service_time_seconds", stage="f1") is None


def test_the_glossary_is_complete_and_bounded() -> None:
    described = {family.name for family in text_string_to_metric_families(exposition(lambda: [STATUS]).decode())}
    assert described == {metric.name.removesuffix("_total") for metric in METRICS}
    for metric in METRICS:
        assert len(metric.labels) + 1 <= 3
        assert metric.meaning
        assert metric.action
        assert metric.name.endswith("_total") == (metric.kind == "counter")


def test_no_apps_no_samples() -> None:
    assert samples([]) == {}
