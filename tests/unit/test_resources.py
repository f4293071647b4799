"""Resources asked for in a document or a start body, and memory of GPUs as a share of one."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from compositions.document.loader import load
from compositions.errors import CompositionError, RecomposeError
from compositions.model import Stage, held_by
from compositions.resources import Need, need_of, sized, with_resources
from control.decisions import Mode
from runtime.placement.cluster import Amounts, Cluster, CpuReport, Gpu, Node, NodeReport
from runtime.placement.place import Shape, place
from service.daemon.store.store import DaemonStore
from service.runner.rpc.requests import ReadStatus, Start, Stop
from service.runner.runner import Runner
from service.schemas.base import plain
from service.schemas.figures import NodeBody
from service.schemas.spec import InputSpec, RunSpec, SourceSpec
from tests.support.fakes import fake_daemon
from tests.support.waiting import wait_until

GB = 10**9
STAGES = (Stage("read"), Stage("detect", gpus=1.0, memory="2GB"), Stage("draw"))


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
        ({"gpu_memory": "40GB", "gpus": 0.25}, 80, 0.5),
        ({"gpu_memory": "100GB"}, 80, 2),
        ({"gpu_memory": 1}, 80, 0.0001),
        ({"gpu_memory": 0}, 80, 0.0),
    ],
)
def test_memory_of_a_gpu_is_a_share_of_one(asked: Mapping[str, Any], gpu_gb: int | None, gpus: float) -> None:
    assert need_of(sized([Stage("detect", **asked)], gpu_gb and gpu_gb * GB)) == Need(gpus=gpus)


def test_the_smallest_gpu_counts_once_each_node_has_told() -> None:
    def node(name: str, *memory_gb: int | None) -> Node:
        gpus = tuple(Gpu("H", 0.0, each and each * GB, 0) for each in memory_gb)
        seen = NodeReport(CpuReport(8, 8, None), GB, GB, gpus)
        return Node(name, Amounts(8, max(1, len(gpus))), seen=seen if gpus else None)

    def known(*nodes: Node) -> int | None:
        return Cluster(nodes).gpu_memory_bytes

    assert known(node("a", 80, 80), node("b", 24), replace(node("c"), has=Amounts(8))) == 24 * GB
    assert known(node("a", 80), node("b")) is None
    assert known(node("a", 80, None)) is None
    assert known() is None


def test_what_is_asked_for_elsewhere_takes_the_place_of_what_a_stage_says() -> None:
    found = with_resources(STAGES, {"detect": {"gpus": 0.25, "custom": {"zone": "a"}}, "draw": {"cpus": 2}})
    assert need_of(held_by(found, ())) == Need(2, 0.25, 2 * GB, {}, {"zone": "a"})
    assert with_resources(STAGES, {}) == STAGES


@pytest.mark.parametrize(
    ("asked", "place", "sentence"),
    [
        ({"detct": {"gpus": 1}}, "detct", "is no stage of this app; there are read, detect, draw"),
        ({"detect": {"gpu": 1}}, "detect", "is {'gpu': 1}; must be a mapping with some of cpus, gpus"),
        ({"detect": {"gpus": 1.5}}, "detect", "has gpus = 1.5; must be a share of one GPU"),
        ({"draw": {"gpu_memory": "4 XB"}}, "draw", "has gpu_memory = '4 XB', which is no size; give .*, or '25%'"),
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
    assert running is not None
    assert running.resources == {"f1": {"cpus": 2}, "f2": {"cpus": 0.5}}
    daemon.close()


def test_resources_that_are_none_are_refused_at_the_door(client: TestClient) -> None:
    refused = client.post("/apps/synthetic/start", json={"resources": {"f9": {"gpus": 1}}})
    assert refused.status_code == 422
    assert "f9 is no stage of this app; there are f1, f2, f3" in refused.json()["detail"]
    document = "app: synthetic\nresources: {f1: {gpus: 1}}\n"
    live = client.post("/compositions", content=document, headers={"content-type": "application/yaml"})
    assert live.status_code == 422
    assert "are taken at a start" in live.text


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


def test_nodes_tell_their_quota_and_the_way_there() -> None:
    node = Node("a", Amounts(0.5, 0, GB), seen=NodeReport(CpuReport(2, 2, 0.5), GB, GB))
    body = plain(NodeBody.of(node, "2026-01-01T00:00:00.000Z", {"eye": 1}, hop_ms=2.7))
    assert {name: body[name] for name in ("quota", "hop_ms", "memory")} == {"quota": 0.5, "hop_ms": 2.7, "memory": GB}
    bare = plain(NodeBody.of(replace(node, seen=None), "2026-01-01T00:00:00.000Z", {}))
    assert not bare.keys() & {"quota", "hop_ms"}
