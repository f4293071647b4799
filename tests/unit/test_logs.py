"""Logs are JSON lines without secrets, what apps print comes by whole lines, metrics are as Prometheus reads them."""

import json
import logging
import re
import threading
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import structlog
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from apps import registry
from compositions.batching import Batching
from control.decisions import State
from runtime.placement.cluster import Amounts, CpuReport, Gpu, Node, NodeReport
from service import logs
from service.api import create_app
from service.api.guard import Access
from service.api.metrics import METRICS, NODE_METRICS
from service.api.operation import Exposition
from service.daemon.daemon import Daemon
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.runner_slot import LocalHost
from service.logs import LINES_PER_S, Printed, PrintedHere
from service.schemas.base import json_of
from service.schemas.compositions import BatchingStatus
from service.schemas.figures import Cost, Items, Latency, LatencyHistogram, NodeBody
from service.schemas.results import Summary
from service.schemas.slo import SloInForce
from service.schemas.spec import RunSpec
from service.schemas.status import Status, resting
from tests.support.bodies import having
from tests.support.fakes import FakeRunner, PromptTicker, fake_daemon


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Logging as it was, after the test."""
    root = logging.getLogger()
    handlers, level, config = root.handlers[:], root.level, structlog.get_config()
    yield
    root.handlers[:], root.level = handlers, level
    structlog.configure(**config)


def test_lines_of_json_from_structlog_and_the_standard_library(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info")
    structlog.get_logger().info("runner up", app="synthetic")
    logging.getLogger("uvicorn.error").warning("by %s", "uvicorn")
    structlog.get_logger().debug("too quiet")
    logging.getLogger("httpx").info("noise")
    first, second = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert (first["event"], first["app"], first["level"]) == ("runner up", "synthetic", "info")
    assert first["at"].endswith("Z")
    assert (second["event"], second["level"]) == ("by uvicorn", "warning")


def test_tokens_and_bodies_stay_out(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("debug")
    state = DaemonStore(None)
    application = create_app(fake_daemon(state), Access(token="s3cret"))
    with TestClient(application, base_url="http://localhost") as client:
        for token in ("s3cret", "wr0ng"):
            headers = {"authorization": f"Bearer {token}"}
            client.post("/apps/synthetic/start", json={"source": {"kind": "push"}}, headers=headers)
            client.post("/apps/synthetic/items", json="pr1vate", headers=headers)
            client.post("/slo", json={"app": "pr1vate"}, headers=headers)
    state.close()
    written = capsys.readouterr().err
    assert "runner is up" in written
    assert not any(secret in written for secret in ("s3cret", "wr0ng", "pr1vate"))


def test_passwords_in_addresses_stay_out_whoever_writes_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    recent = logs.Recent()
    logs.configure("info", recent=recent)
    lines = (
        "rtsp://me:s3cret@camera/1 is away",
        "%3|FAIL|rdkafka#consumer-1| me:x@y is none, kafka://me:s3/cr3t@broker:9092/bootstrap is",
        '"WebSocket /?token=s3cret" 403',
        "jdbc:postgresql://db/x?user=me&password=s3cret&ssl=true",
    )
    for line in lines:
        logging.getLogger("library").warning(line)
        structlog.get_logger().warning("printed", line=line, about=ValueError(line))
    try:
        raise ValueError(lines[0])
    except ValueError:
        structlog.get_logger().exception("broken")
    written = capsys.readouterr().err
    kept = str(recent.read(None, 0, 100))
    for text in (written, kept):
        assert not re.search("s3cret|cr3t", text)
        for left in ("rtsp://camera/1 is away", "kafka://broker:9092/bootstrap", "me:x@y", "/?token=…", "…&ssl=true"):
            assert left in text
    logs.configure("info", console=True)
    logging.getLogger("library").warning(lines[0])
    assert "s3cret" not in capsys.readouterr().err


def test_what_went_wrong_is_told_without_passwords() -> None:
    status = resting(registry.find("synthetic"), State.FAILED, RunSpec(app="synthetic"), None)
    body = status.model_dump() | {"failure": "rtsp://me:s3cret@h/1 is away", "held_up": "s3://KEY:S3/cret@bucket is"}
    told = Status.model_validate(body)
    assert (told.health.failure, told.health.held_up) == ("rtsp://h/1 is away", "s3://bucket is")
    failed = status.but(health=status.health.failed(body["failure"]))
    assert json.loads(json_of(failed))["failure"] == told.health.failure
    assert Summary(run="r", failure="amqp://me:s3cret@h:1/x").failure == "amqp://h:1/x"


@pytest.mark.parametrize(
    ("line", "level", "event", "fields"),
    [
        ('{"app": "a", "event": "died", "level": "warning", "at": "now"}', "warning", "died", {"app": "a"}),
        ("item \x1b[31m7\x1b[0m", "info", "printed", {"line": "item 7"}),
        ('{"event": "x", "level": "loud", "at": "now"}', "info", "printed", None),
        ('{"event": "x", "level": "info", "at": 1, "self": 1, "by": "another"}', "info", "x", {}),
        ('{"a":' * 100_000, "info", "printed", None),
        ("[2026-11-23 17:40:03,123 E 4711 4711] core_worker.cc:5: x", "debug", "ray", None),
        ("    @     0x7f12ab34 (unknown)", "debug", "ray", None),
    ],
)
def test_lines_of_others_keep_their_level(line: str, level: str, event: str, fields: dict[str, str] | None) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG))
    with structlog.testing.capture_logs() as seen:
        logs.relay("recompose-1-a-runner pid=7", line)
    (told,) = seen
    assert (told["log_level"], told["event"], told["by"]) == (level, event, "recompose-1-a-runner pid=7")
    rest = {name: value for name, value in told.items() if name not in ("log_level", "event", "by")}
    assert rest == ({"line": line} if fields is None else fields)


@pytest.mark.parametrize("readable", [False, True])
def test_the_log_has_one_form(readable: bool, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(console=readable)
    structlog.get_logger().info("begun")
    logging.getLogger("uvicorn").warning("shaky")
    logs.relay("w1", '{"event": "worker died", "level": "warning", "at": "now"}')
    lines = capsys.readouterr().err.splitlines()
    form = r"\[(info|warning) *\] \w.* at=20" if readable else r'\{.*"level": "(info|warning)".*\}'
    assert [bool(re.match(form, line)) for line in lines] == [True] * 3, lines
    assert not any("\x1b" in line for line in lines)


class Told:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.now_s = 0.0
        self.printed = Printed(lambda who, line: self.lines.append((who, line)), lambda: self.now_s)


def test_what_is_too_much_for_a_second_is_counted_and_told() -> None:
    told = Told()
    for number in range(LINES_PER_S + 1234):
        told.printed.line("w1", str(number))
    assert told.lines == [("w1", str(number)) for number in range(LINES_PER_S)]
    told.now_s = 1.0
    told.printed.line("w1", "the next second")
    left_out = ("recompose", "1,234 lines left out; at most 200 a second are shown")
    assert told.lines[LINES_PER_S:] == [left_out, ("w1", "the next second")]
    told.printed.close()
    assert told.lines[-1] == ("w1", "the next second")


def test_lines_of_threads_do_not_mix_and_a_begun_one_waits_for_its_end() -> None:
    told, begun, go = Told(), threading.Event(), threading.Event()

    def other() -> None:
        print("from ", end="")
        begun.set()
        assert go.wait(10)
        print("another")

    with redirect_stdout(PrintedHere(told.printed)):
        worker = threading.Thread(target=other, name="recompose-w7")
        worker.start()
        assert begun.wait(10)
        print("two\nlines")
        go.set()
        worker.join()
    main_thread = threading.current_thread().name
    assert told.lines == [(main_thread, "two"), (main_thread, "lines"), ("w7", "from another")]


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
