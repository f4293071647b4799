"""Nodes of the service: what is shown of them, draining one, and starts that no node could serve."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from apps import registry
from runtime.placement.cluster import Amounts, Cluster, CpuReport, Gpu, Node, NodeReport, NodeState
from service.api import create_app
from service.daemon.daemon import Daemon
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.runner_slot import LocalHost
from service.schemas.figures import Worker
from service.schemas.spec import RunSpec
from tests.support.bodies import having
from tests.support.fakes import FakeRunner, PromptTicker

HEAVY = """
from recompose import App, Stage

class Heavy(App):
    name = "heavy"
    stages = (Stage("decode"), Stage("detect", gpus=0.5, cpus=1, memory="2GB"))

    def decode(self, value):
        return value

    def detect(self, value):
        return value
"""
TWO = "app: heavy\ncompositions: [{name: wide, notation: Seq-Par*4}]\n"
PUSHED = {"source": {"kind": "push"}}


class ClusterHost(LocalHost):
    """Three nodes, of which one has a GPU."""

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


def refusal(response: Any, status: int) -> str:
    assert response.status_code == status, response.text
    return str(response.json()["detail"])


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
    host.nodes[0] = replace(host.nodes[0], seen=NodeReport(CpuReport(1, 1, None), 8_000, 6_000))
    host.nodes[1] = replace(host.nodes[1], seen=NodeReport(CpuReport(4, 4, None), 32_000, 30_000, (gpu,)))
    plain, with_gpu, _ = client.get("/nodes").json()
    assert (plain["machine_memory_bytes"], plain["machine_memory_free_bytes"]) == (8_000, 6_000)
    assert "devices" not in plain
    assert with_gpu["devices"] == [
        {"name": "NVIDIA H100", "busy": 0.5, "memory_bytes": 80_000, "memory_used_bytes": 2_000}
    ]


def test_a_node_shows_what_its_workers_take(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = [
        Worker(id=name, pid=1, node=node, group=0, outstanding=0, restarts=0, memory_bytes=memory)
        for name, node, memory in (("a", "10.0.0.1", 100), ("b", "10.0.0.1", 150), ("c", "10.0.0.2", None))
    ]
    own = FakeRunner.status
    monkeypatch.setattr(FakeRunner, "status", lambda self: having(own(self), {"workers": workers}))
    client.post("/apps/synthetic/start", json=PUSHED)
    near, far, _ = client.get("/nodes").json()
    assert (near["workers"], near["workers_memory_bytes"]) == ({"synthetic": 2}, 250)
    assert far["workers"] == {"synthetic": 1}
    assert "workers_memory_bytes" not in far


def test_a_node_is_drained_by_its_address_or_id_but_not_the_last_one(client: TestClient) -> None:
    assert client.post("/nodes/10.0.0.2/drain", json={"deadline_s": 60}).json()["state"] == "draining"
    assert client.post("/nodes/n2/drain").json()["state"] == "draining"
    assert [each["state"] for each in client.get("/nodes").json()] == ["up", "draining", "draining"]
    last = refusal(client.post("/nodes/n0/drain"), 409)
    assert last == "node n0 is the only one that takes workers; add another before draining it"
    unknown = refusal(client.post("/nodes/n9/drain"), 404)
    assert unknown.startswith("there is no node 'n9'; there are 10.0.0.1, 10.0.0.2")
    assert client.post("/nodes/n0/drain", json={"deadline_s": -1}).status_code == 422


def test_a_node_that_is_gone_is_shown_as_lost(client: TestClient, host: ClusterHost) -> None:
    assert len(client.get("/nodes").json()) == 3
    del host.nodes[2]
    assert [each["state"] for each in client.get("/nodes").json()] == ["up", "up", "lost"]


def test_an_app_starts_where_a_node_has_what_it_needs(client: TestClient) -> None:
    assert client.post("/apps/heavy/start", json=PUSHED).status_code == 200


def test_an_app_that_no_node_could_hold_is_refused(client: TestClient, host: ClusterHost) -> None:
    del host.nodes[1]
    assert refusal(client.post("/apps/heavy/start", json=PUSHED), 422) == (
        "heavy cannot start on these nodes: 0 of 1 worker of heavy fit: each needs 1 CPU, 0.5 GPU and 2 GB of memory, "
        "and the node with the most left has 2 CPUs and 8 GB of memory, but no GPU"
    )
    assert client.post("/apps/synthetic/start", json=PUSHED).status_code == 200, "which asks for nothing"


def test_a_composition_that_the_nodes_could_not_hold_together_is_refused(client: TestClient) -> None:
    assert client.post("/compositions", content=TWO, headers={"content-type": "application/yaml"}).status_code == 200
    said = refusal(client.post("/apps/heavy/start", json={**PUSHED, "composition": "wide"}), 422)
    assert said.startswith("heavy cannot start on these nodes: 2 of 5 workers of heavy fit: each needs 1 CPU")


def test_the_cores_of_all_nodes_bound_the_workers_of_a_composition(client: TestClient) -> None:
    """Seven cores of 32 workers each."""
    listed = ", ".join(f"{{name: {name}, notation: Par*{n}-Seq-Seq}}" for name, n in (("wide", 222), ("wider", 223)))
    text = f"app: synthetic\ncompositions: [{listed}]"
    assert client.post("/compositions", content=text, headers={"content-type": "application/yaml"}).status_code == 200
    said = refusal(client.post("/apps/synthetic/start", json={**PUSHED, "composition": "wider"}), 422)
    assert "has 225 workers; on 7 cores an app may have 224" in said
    assert client.post("/apps/synthetic/start", json={**PUSHED, "composition": "wide"}).status_code == 200
