"""Nodes: what is shown of them, draining one, starts that none could serve, and what a process sees of its machine; and
resources asked for in a document, a start body or of Ray's autoscaler."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from fastapi.testclient import TestClient
from synthetic_daemon import PUSHED, YAML, detail

from apps import registry
from compositions.document.loader import load
from compositions.errors import CompositionError, RecomposeError
from compositions.model import Stage, held_by
from compositions.resources import Need, need_of, sized, with_resources
from control.decisions import Mode
from runtime.placement.cluster import Amounts, Cluster, CpuReport, Gpu, Node, NodeReport, NodeState
from runtime.placement.place import Shape, place
from runtime.pools.ray import report
from runtime.pools.ray.report import gpus_of, node_report
from service.api import create_app
from service.daemon.daemon import Daemon
from service.daemon.nodes import KEPT_S, Kept, wanted_by
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.runner_slot import LocalHost
from service.runner.rpc.requests import ReadStatus, Start, Stop
from service.runner.runner import Runner
from service.schemas.figures import Placed, StageStatus, Worker
from service.schemas.spec import InputSpec, RunSpec, SourceSpec
from service.schemas.status import State, Status, resting
from tests.support.bodies import having
from tests.support.fakes import FakeRunner, PromptTicker, fake_daemon
from tests.support.waiting import wait_until

HEAVY = """
from recompose import App, Stage
class Heavy(App):
    name = "heavy"
    stages = (Stage("decode"), Stage("detect", gpus=0.5, cpus=1, memory="2GB"))
    def decode(self, value): ...
    def detect(self, value): ...
"""
TWO = "app: heavy\ncompositions: [{name: wide, notation: Seq-Par*4}]\n"
GB = 10**9
STAGES = (Stage("read"), Stage("detect", gpus=1.0, memory="2GB"), Stage("draw"))


class ClusterHost(LocalHost):
    def __init__(self) -> None:
        super().__init__(lambda spec: FakeRunner(spec.but(app="synthetic", options={})))
        gpu = Amounts(4, 1, 32e9, {"decoder": 2.0})
        self.nodes = [
            Node("n0", Amounts(1, 0, 8e9), Amounts(0.5), address="10.0.0.1"),
            Node("n1", gpu, Amounts(1, 0.5, 2e9), {"zone": "a"}, address="10.0.0.2"),
            Node("n2", Amounts(2, 0, 8e9), address="10.0.0.3"),
        ]

    def cluster(self) -> Cluster:
        return Cluster(tuple(self.nodes), "n0")

    def drain(self, node: str, deadline_s: float) -> None:
        self.nodes = [replace(e, state=NodeState.DRAINING) if e.id == node else e for e in self.nodes]


@pytest.fixture
def host() -> ClusterHost:
    return ClusterHost()


@pytest.fixture
def client(disk: DaemonStore, host: ClusterHost, tmp_path: Path) -> Iterator[TestClient]:
    (tmp_path / "heavy.py").write_text(HEAVY)
    apps = registry.discover([tmp_path])
    base = RunSpec(app="", pool="ray", apps_dirs=(str(tmp_path),))
    daemon = Daemon({name: apps[name] for name in ("heavy", "synthetic")}, host, disk, base, make_ticker=PromptTicker)
    with TestClient(create_app(daemon), base_url="http://127.0.0.1:8080") as client:
        yield client


def test_nodes_are_shown_with_what_they_have_and_what_is_taken(client: TestClient) -> None:
    near, gpu, _ = client.get("/nodes").json()
    assert (near["node"], near["address"], near["state"], near["cpus"]) == ("n0", "10.0.0.1", "up", 1)
    assert (gpu["gpus"], gpu["gpus_used"], gpu["cpus_used"], gpu["memory_used_bytes"]) == (1, 0.5, 1, 2_000_000_000)
    assert (gpu["custom"], gpu["labels"], gpu["workers"]) == ({"decoder": 2.0}, {"zone": "a"}, {})
    assert gpu["since"].endswith("Z")


def test_a_node_shows_its_memory_and_its_gpus_once_it_has_told(client: TestClient, host: ClusterHost) -> None:
    told = {"machine_memory_bytes", "machine_memory_free_bytes", "workers_memory_bytes", "devices"}
    assert not told & client.get("/nodes").json()[1].keys()
    gpu = Gpu("NVIDIA H100", 0.5, 80_000, 2_000)
    host.nodes[0] = replace(host.nodes[0], seen=NodeReport(CpuReport(1, 1, 0.5), 8_000, 6_000))
    host.nodes[1] = replace(host.nodes[1], seen=NodeReport(CpuReport(4, 4, None), 32_000, 30_000, (gpu,)))
    plain, with_gpu, _ = client.get("/nodes").json()
    assert (plain["machine_memory_bytes"], plain["machine_memory_free_bytes"]) == (8_000, 6_000)
    assert (plain["quota"], "quota" in with_gpu) == (0.5, False)
    assert "devices" not in plain
    (device,) = with_gpu["devices"]
    assert device == {"name": "NVIDIA H100", "busy": 0.5, "memory_bytes": 80_000, "memory_used_bytes": 2_000}


def test_a_node_shows_what_its_workers_take(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = [
        Worker(id=name, pid=1, node=node, group=0, outstanding=0, restarts=0, memory_bytes=memory)
        for name, node, memory in (("a", "10.0.0.1", 100), ("b", "10.0.0.1", 150), ("c", "10.0.0.2", None))
    ]
    there = {"workers": workers, "placement": [Placed(node="10.0.0.1", workers={}, hop_ms=2.7)]}
    own = FakeRunner.status
    monkeypatch.setattr(FakeRunner, "status", lambda self: having(own(self), there))
    client.post("/apps/synthetic/start", json=PUSHED)
    near, far, _ = client.get("/nodes").json()
    assert (near["workers"], near["workers_memory_bytes"], near["hop_ms"]) == ({"synthetic": 2}, 250, 2.7)
    assert far["workers"] == {"synthetic": 1}
    assert "workers_memory_bytes" not in far


def test_a_node_is_drained_by_its_address_or_id_but_not_the_last_one(client: TestClient) -> None:
    assert client.post("/nodes/10.0.0.2/drain", json={"deadline_s": 60}).json()["state"] == "draining"
    assert client.post("/nodes/n2/drain").json()["state"] == "draining"
    assert [each["state"] for each in client.get("/nodes").json()] == ["up", "draining", "draining"]
    last = detail(client.post("/nodes/n0/drain"), 409)
    assert last == "node n0 is the only one that accepts workers; add another before draining it"
    unknown = detail(client.post("/nodes/n9/drain"), 404)
    assert unknown.startswith("there is no node 'n9'; give the address or id of a node; there are 10.0.0.1, 10.0.0.2")
    assert client.post("/nodes/n0/drain", json={"deadline_s": -1}).status_code == 422


def test_a_node_that_is_gone_is_shown_as_lost(client: TestClient, host: ClusterHost) -> None:
    assert len(client.get("/nodes").json()) == 3
    del host.nodes[2]
    assert [each["state"] for each in client.get("/nodes").json()] == ["up", "up", "lost"]


def test_an_app_starts_where_a_node_has_what_it_needs_and_nowhere_else(client: TestClient, host: ClusterHost) -> None:
    (gpu,) = host.nodes[1:2]
    del host.nodes[1]
    said = detail(client.post("/apps/heavy/start", json=PUSHED), 422)
    assert "0 of 1 worker of heavy fit: each needs 1 CPU, 0.5 GPU and 2 GB of memory" in said
    assert said.endswith("the node with the most left has 2 CPUs and 8 GB of memory, but no GPU")
    host.nodes.append(gpu)
    assert client.post("/apps/heavy/start", json=PUSHED).status_code == 200
    assert client.post("/apps/synthetic/start", json=PUSHED).status_code == 200, "which asks for nothing"


def test_a_composition_that_the_nodes_could_not_hold_together_is_refused(client: TestClient) -> None:
    assert client.post("/compositions", content=TWO, headers=YAML).status_code == 200
    said = detail(client.post("/apps/heavy/start", json={**PUSHED, "composition": "wide"}), 422)
    assert said.startswith("heavy cannot start on these nodes: 2 of 5 workers of heavy fit: each needs 1 CPU")


def test_the_cores_of_all_nodes_bound_the_workers_of_a_composition(client: TestClient) -> None:
    """Seven cores of 32 workers each."""
    listed = "{name: wide, notation: Par*222-Seq-Seq}, {name: wider, notation: Par*223-Seq-Seq}"
    text = f"app: synthetic\ncompositions: [{listed}]"
    assert client.post("/compositions", content=text, headers=YAML).status_code == 200
    said = detail(client.post("/apps/synthetic/start", json={**PUSHED, "composition": "wider"}), 422)
    assert "has 225 workers; on 7 cores an app may have 224" in said
    assert client.post("/apps/synthetic/start", json={**PUSHED, "composition": "wide"}).status_code == 200


class NVMLError(Exception):
    pass


def nvml(**more: Any) -> Any:
    """The functions of ``pynvml`` that are used, for two devices of which the second does not tell how busy it is."""
    busy, memory = SimpleNamespace(gpu=25, memory=3), SimpleNamespace(total=80, free=60, used=20)
    told = {
        "nvmlDeviceGetCount.return_value": 2,
        "nvmlDeviceGetName.side_effect": ["NVIDIA H200", "NVIDIA H100"],
        "nvmlDeviceGetUtilizationRates.side_effect": [busy, NVMLError("Not Supported")],
        "nvmlDeviceGetMemoryInfo.return_value": memory,
    }
    return MagicMock(NVMLError=NVMLError, **told, **more)


def test_gpus_tell_their_use_and_memory_but_nothing_without_a_library_or_with_a_lost_device() -> None:
    assert gpus_of(nvml()) == (Gpu("NVIDIA H200", 0.25, 80, 20), Gpu("NVIDIA H100", None, 80, 20))
    lost = {"nvmlDeviceGetHandleByIndex.side_effect": [0, NVMLError("GPU is lost")]}
    assert gpus_of(None) == gpus_of(nvml(**lost)) == ()


def test_a_machine_without_the_library_or_the_driver_reports_no_gpus() -> None:
    report._nvml.cache_clear()
    assert node_report(gpus=True).gpus == ()
    seen = node_report(gpus=False)
    assert 0 < seen.memory_free_bytes < seen.memory_bytes


@pytest.mark.parametrize(
    ("folder", "usage", "reclaimable"),
    [("", "memory.current", "inactive_file"), ("memory", "memory.usage_in_bytes", "total_inactive_file")],
)
def test_a_container_has_what_its_control_group_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, usage: str, reclaimable: str
) -> None:
    group = tmp_path / folder
    group.mkdir(exist_ok=True)
    (group / usage).write_text("700000000\n")
    (group / "memory.stat").write_text(f"anon 5\n{reclaimable} 300000000\n")
    monkeypatch.setattr(report, "_GROUPS", tmp_path)
    monkeypatch.setattr(report, "memory_bytes", lambda: 1_000_000_000)
    seen = node_report(gpus=False)
    assert (seen.memory_bytes, seen.memory_free_bytes) == (1_000_000_000, 600_000_000)


def node(*told: float | None) -> Node:
    """Return one whose GPUs tell this of how busy they are, and of their memory."""
    gpus = tuple(Gpu("one", each, each, None) for each in told)
    return Node("n", Amounts(4, max(1, len(told))), seen=NodeReport(CpuReport(4, 4, None), 8, 8, gpus))


NEW, PLAIN = Node("new", Amounts(4, 1)), Node("plain", Amounts(4))


@pytest.mark.parametrize(
    ("nodes", "busy"),
    [
        ((node(0.5, 1.0), node(0.25)), 1.75),
        ((node(0.5, None),), None),
        ((node(0.5), node()), None),
        ((node(0.5), NEW), None),
        ((PLAIN,), None),
        ((node(0.5), PLAIN), 0.5),
    ],
)
def test_the_gpus_at_work_are_known_where_each_tells(nodes: tuple[Node, ...], busy: float | None) -> None:
    assert Cluster(nodes).gpus_busy == busy


def test_a_worker_has_the_memory_of_a_gpu_that_all_its_stages_keep() -> None:
    """Four models of 4.8 GB share one GPU of 24 GB, in workers of their own or in one worker."""
    models = [Stage(f"model{at}", gpu_memory="4.8GB", setup="per-group") for at in range(4)]
    shares = sized(models, 24 * GB)
    assert [need_of([each]).gpus for each in shares] == [0.2] * 4
    assert need_of(shares).gpus == 0.8
    node = Node("a", Amounts(8, 1, 64 * GB))
    found = place(Cluster((node,)), [Shape(each.name, need_of([each]), 1) for each in shares], {})
    assert found.workers == 4


@pytest.mark.parametrize(
    ("asked", "gpu_gb", "gpus"),
    [
        ({"gpu_memory": "4GB"}, 80, 0.05),
        ({"gpu_memory": "4GB"}, None, 1.0),
        ({"gpu_memory": "25%"}, None, 0.25),
        ({"gpu_memory": "4GB", "gpus": 0.5}, 80, 0.5),
        ({"gpu_memory": "100GB"}, 80, 2),
        ({"gpu_memory": 0}, 80, 0.0),
    ],
)
def test_memory_of_a_gpu_is_a_share_of_one(asked: Mapping[str, Any], gpu_gb: int | None, gpus: float) -> None:
    assert need_of(sized([Stage("detect", **asked)], gpu_gb and gpu_gb * GB)) == Need(gpus=gpus)


@pytest.mark.parametrize(
    ("nodes", "smallest"),
    [
        ((node(80, 80), node(24), PLAIN), 24),
        ((node(80), node()), None),
        ((node(80), NEW), None),
        ((node(80, None),), None),
        ((), None),
    ],
)
def test_the_smallest_gpu_counts_once_each_node_has_told(nodes: tuple[Node, ...], smallest: int | None) -> None:
    assert Cluster(nodes).gpu_memory_bytes == smallest


def test_what_is_asked_for_elsewhere_takes_the_place_of_what_a_stage_says() -> None:
    found = with_resources(STAGES, {"detect": {"gpus": 0.25, "custom": {"zone": "a"}}, "draw": {"cpus": 2}})
    assert need_of(held_by(found, ())) == Need(2, 0.25, 2 * GB, {}, {"zone": "a"})
    assert with_resources(STAGES, {}) == STAGES


@pytest.mark.parametrize(
    ("asked", "place", "sentence"),
    [
        ({"detct": {"gpus": 1}}, "detct", "is not a stage of this app; the stages are read, detect, draw"),
        ({"detect": {"gpu": 1}}, "detect", "is {'gpu': 1}; must be a mapping with some of cpus, gpus"),
        ({"detect": {"gpus": 1.5}}, "detect", "has gpus = 1.5; must be a share of one GPU"),
        ({"draw": {"gpu_memory": "4 XB"}}, "draw", "has gpu_memory = '4 XB'; must be a number of bytes, .*, or '25%'"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_with_its_place(asked: Any, place: str, sentence: str) -> None:
    with pytest.raises(RecomposeError, match=f"resources.{place} {sentence}"):
        with_resources(STAGES, asked)
    text = json.dumps({"app": "eye", "resources": asked, "compositions": [{"name": "1", "notation": "Seq-Seq-Seq"}]})
    with pytest.raises(CompositionError, match=f"resources.{place}: {sentence}"):
        load(text, {"eye": STAGES})


def test_a_document_may_ask_by_number_and_for_resources_alone() -> None:
    found = load("app: eye\nresources: {f2: {gpu_memory: 4GB}}\n", {"eye": STAGES})
    assert (found.compositions, found.resources) == ((), {"detect": {"gpu_memory": "4GB"}})


def test_a_watched_folder_asks_for_the_next_start_and_a_start_body_wins(disk: DaemonStore) -> None:
    daemon = fake_daemon(disk)
    daemon.compositions.load_directory({}, {"synthetic": {"f1": {"cpus": 2}, "f2": {"cpus": 1}, "gone": {"cpus": 1}}})
    push = RunSpec(app="synthetic", source=SourceSpec(kind="push"), resources={"f2": {"cpus": 0.5}})
    daemon.apps.start(push)
    running = daemon.apps.running_spec("synthetic")
    assert running.resources == {"f1": {"cpus": 2}, "f2": {"cpus": 0.5}}
    daemon.close()


def test_resources_that_are_none_are_refused_at_the_door(client: TestClient) -> None:
    refused = client.post("/apps/synthetic/start", json={"resources": {"f9": {"gpus": 1}}})
    assert "f9 is not a stage of this app; the stages are f1, f2, f3" in detail(refused, 422)
    document = "app: synthetic\nresources: {f1: {gpus: 1}}\n"
    assert "can be set only at a start" in detail(client.post("/compositions", content=document, headers=YAML), 422)


def test_status_says_which_group_has_workers_on_which_node() -> None:
    options = {"weights": "1:1:1", "total_ms": 3, "compute": "wait"}
    spec = RunSpec(app="synthetic", options=options, pool="local", composition="7", mode=Mode.PINNED)
    runner = Runner(spec.but(resources={"f2": {"memory": "1GB"}}, input=InputSpec(rate_per_s=50)))
    runner.ask(Start())
    wait_until(lambda: runner.ask(ReadStatus()).items.delivered > 20)
    (there,) = runner.ask(ReadStatus()).resources.placement or ()
    runner.ask(Stop(drain=False))
    assert there.workers == {"f1": 2, "f2": 2, "f3": 2}
    assert there.hop_ms is not None


CORE, GPU = Need(cpus=1.0), Need(gpus=0.5)
DECODE, DETECT = Stage("decode"), Stage("detect", gpus=0.5, setup="per-group")
REST = resting(registry.find("synthetic"), State.STABLE, RunSpec(app="synthetic"), None)


def loaded(rate_per_s: float | None, *times_ms: tuple[str, float, float]) -> Status:
    """``times_ms``: name, service time and CPU time of each measured stage."""
    stages = [
        StageStatus.all_of([Stage(name)], None)[0].model_copy(update={"service_time_ms": all_ms, "cpu_time_ms": own_ms})
        for name, all_ms, own_ms in times_ms
    ]
    return REST.but(input_rate_per_s=rate_per_s, stages=stages)


@pytest.mark.parametrize(
    ("status", "stages", "wanted"),
    [
        (loaded(20, ("decode", 100, 40)), [DECODE], {CORE: 1}),  # 0.8 of a core, busy for 0.8 of the time
        (loaded(21, ("decode", 100, 40)), [DECODE], {CORE: 2}),
        (loaded(20, ("decode", 10, 10), ("detect", 100, 1)), [DECODE, DETECT], {CORE: 1, GPU: 3}),
        (loaded(None, ("decode", 100, 40)), [DECODE], {}),
    ],
)
def test_load_and_times_say_what_is_needed(status: Status, stages: Sequence[Stage], wanted: dict[Need, int]) -> None:
    assert wanted_by(status, stages) == wanted


def test_more_is_asked_for_at_once_and_less_after_ten_minutes_of_less() -> None:
    kept = Kept()
    assert kept.at(0.0, Counter({CORE: 2})) == {CORE: 2}
    assert kept.at(5.0, Counter({CORE: 5, GPU: 1})) == {CORE: 5, GPU: 1}
    assert kept.at(KEPT_S, Counter({CORE: 1})) == {CORE: 5, GPU: 1}
    assert kept.at(KEPT_S + 6, Counter({CORE: 1})) == {CORE: 1}


@pytest.mark.parametrize("autoscale", [True, False])
def test_a_service_asks_only_if_told_to(disk: DaemonStore, monkeypatch: pytest.MonkeyPatch, autoscale: bool) -> None:
    asked: list[Sequence[Need]] = []
    monkeypatch.setattr(LocalHost, "request", lambda _, workers: asked.append(workers))
    daemon = fake_daemon(disk)
    daemon.nodes.autoscale = autoscale
    daemon.apps.start(RunSpec(app="synthetic"))
    for _ in range(2):
        daemon.nodes.look()
    assert asked == ([[]] if autoscale else []), "once, unless it changes"
