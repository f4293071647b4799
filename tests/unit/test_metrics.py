"""The exposition, read back by Prometheus' own parser."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from apps import registry
from compositions.batching import Batching
from control.decisions import State
from runtime.placement.cluster import Amounts, CpuReport, Gpu, Node, NodeReport
from service.api import create_app
from service.api.metrics import METRICS, NODE_METRICS
from service.api.operation import Exposition
from service.daemon.daemon import Daemon
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.runner_slot import LocalHost
from service.schemas.compositions import BatchingStatus
from service.schemas.figures import Cost, Items, Latency, LatencyHistogram, NodeBody
from service.schemas.slo import SloInForce
from service.schemas.spec import RunSpec
from service.schemas.status import Status, resting
from tests.support.bodies import having
from tests.support.fakes import FakeRunner, PromptTicker

STATUS = having(
    resting(registry.find("synthetic"), State.STABLE, RunSpec(app="synthetic"), None),
    {
        "slo": SloInForce(metric="latency", target=400.0, threshold=0.2, statistic="mean", bound=480.0),
        "slo_status": "met",
        "input_rate_per_s": 10.0,
        "latency_ms": Latency(mean=181.0, p50=170.0, p95=None, p99=None),
        "items": Items(accepted=5, delivered=4, failed=1, shed=0),
        "cost": Cost(cores=2, workers=5, spares=1, worker_s=60.0, cpu_s=None, cpu_cores=None),
        "offered_per_s": 45.0,
        "admitted_per_s": 25.0,
        "missed": 7,
        "refused": 2,
        "held_up_by": ["sink"],
        "latency_histogram": LatencyHistogram(le_s=[0.1, 0.25], counts=[1, 3, 4], sum_s=1.5),
        "lag_s": 6.5,
        "batching": BatchingStatus.of(Batching(), controller="auto", size=32, reason="a hop shows"),
    },
)


def samples(statuses: list[Status]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    text = Exposition(lambda: statuses).text().decode()
    families = text_string_to_metric_families(text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def value(name: str, **labels: str) -> float | None:
    return samples([STATUS]).get((name, frozenset({"app": "synthetic", **labels}.items())))


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("recompose_app_state", {"state": "stable"}, 1.0),
        ("recompose_slo_bound_seconds", {}, 0.48),
        ("recompose_slo_bound", {"metric": "latency"}, 0.48),
        ("recompose_input_items_per_second", {}, 10.0),
        ("recompose_input_rate", {}, 10.0),
        ("recompose_held_up", {"reason": "sink"}, 1.0),
        ("recompose_item_latency_seconds_bucket", {"le": "0.25"}, 3.0),
        ("recompose_item_latency_seconds_bucket", {"le": "+Inf"}, 4.0),
        ("recompose_item_latency_seconds_sum", {}, 1.5),
        ("recompose_latency_seconds", {"statistic": "mean"}, 0.181),
        ("recompose_items_total", {"outcome": "failed"}, 1.0),
        ("recompose_workers_in_use", {}, 5.0),
        ("recompose_cost_seconds_total", {"kind": "worker"}, 60.0),
        ("recompose_stage_bottleneck", {"stage": "f1"}, 0.0),
        ("recompose_offered_rate", {}, 45.0),
        ("recompose_missed_items_total", {}, 7.0),
        ("recompose_admitted_rate", {}, 25.0),
        ("recompose_refused_items_total", {}, 2.0),
        ("recompose_lag_seconds", {}, 6.5),
        ("recompose_bundle_size", {}, 32.0),
        ("recompose_latency_seconds", {"statistic": "p95"}, None),
        ("recompose_stage_service_time_seconds", {"stage": "f1"}, None),
    ],
)
def test_values_in_base_units_or_none(name: str, labels: dict[str, str], expected: float | None) -> None:
    assert value(name, **labels) == pytest.approx(expected)


def test_the_glossary_is_complete_and_bounded() -> None:
    families = text_string_to_metric_families(Exposition(lambda: [STATUS]).text().decode())
    described = {family.name for family in families if family.name.startswith("recompose_")}
    glossary = {name for metric in (*METRICS, *NODE_METRICS) for name in (metric.name, metric.earlier) if name}
    beside = ("item_latency_seconds", "status_call_seconds", "status_call_seconds_created", "build_info")
    glossary |= {f"recompose_{each}" for each in beside}
    assert described == {name.removesuffix("_total") for name in glossary}
    assert all(len(metric.labels) + 1 <= 3 and metric.meaning for metric in METRICS)


def test_what_nodes_tell_of_their_memory_and_gpus() -> None:
    gpus = (Gpu("one", 0.75, 80, 20), Gpu("cut into instances", None, None, None))
    seen, since = NodeReport(CpuReport(4, 4, None), 1000, 400, gpus), "2026-01-01T00:00:00.000Z"
    nodes = [
        NodeBody.of(Node("n0", Amounts(4, 2), address="10.0.0.1", seen=seen), since, {}, workers_memory_bytes=300),
        NodeBody.of(Node("n1", Amounts(4), address="10.0.0.2"), since, {}),
    ]
    lines = Exposition(list, lambda: nodes).text().decode().splitlines()
    assert [line.removeprefix("recompose_") for line in lines if 'node="' in line] == [
        'node_memory_bytes{address="10.0.0.1",kind="total",node="n0"} 1000.0',
        'node_memory_bytes{address="10.0.0.1",kind="free",node="n0"} 400.0',
        'node_memory_bytes{address="10.0.0.1",kind="workers",node="n0"} 300.0',
        'gpu_busy_ratio{address="10.0.0.1",gpu="0",node="n0"} 0.75',
        'gpu_memory_bytes{address="10.0.0.1",gpu="0",kind="total",node="n0"} 80.0',
        'gpu_memory_bytes{address="10.0.0.1",gpu="0",kind="used",node="n0"} 20.0',
    ]


def test_bundled_apps_have_no_series_until_they_run_and_own_ones_have(disk: DaemonStore, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from recompose import App, Stage\nclass Own(App):\n    name = 'own'\n    stages = (Stage('one'),)\n"
        "    def one(self, value):\n        return value\n"
    )
    apps = {name: registry.find(name, [tmp_path]) for name in ("own", "synthetic")}
    daemon = Daemon(apps, LocalHost(FakeRunner), disk, make_ticker=PromptTicker)
    with TestClient(create_app(daemon), base_url="http://127.0.0.1") as client:
        assert 'app="own"' in client.get("/metrics").text
        assert 'app="synthetic"' not in client.get("/metrics").text
        client.post("/apps/synthetic/start", json={})
        assert 'app="synthetic"' in client.get("/metrics").text
        unknown = client.get("/status/nothing").json()["detail"]
        assert unknown == "there is no app 'nothing'; registered are own and 1 bundled app"
        bundled = {each["name"]: each["bundled"] for each in client.get("/apps").json()}
        assert bundled == {"own": False, "synthetic": True}


def test_a_stopped_app_has_its_state_and_no_more() -> None:
    stopped = having(STATUS, {"state": State.STOPPED})
    own = {key: number for key, number in samples([stopped]).items() if ("app", "synthetic") in key[1]}
    assert own == {("recompose_app_state", frozenset({("app", "synthetic"), ("state", "stopped")})): 1.0}


def test_every_name_ends_in_its_unit_or_says_that_it_has_none() -> None:
    units = ("_seconds", "_items", "_per_second", "_bytes", "_total")
    without = {metric.name for metric in (*METRICS, *NODE_METRICS) if not metric.name.endswith(units)}
    assert without == {
        "recompose_app_state", "recompose_slo_status", "recompose_slo_bound", "recompose_held_up",
        "recompose_stage_bottleneck", "recompose_workers", "recompose_workers_in_use",
        "recompose_gpu_busy_ratio",
    }  # fmt: skip
