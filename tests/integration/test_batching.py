"""Daemons of this process with local workers: how many items travel together while an app runs; and two apps with a
budget, each of which keeps to its share, while shares follow the loads."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from fastapi.testclient import TestClient

from apps import registry
from compositions.enumeration import generate
from control.decisions import Mode
from profiler.slo import parse_slo
from service.api.app import create_app
from service.daemon.daemon import Daemon
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.runner_slot import LocalHost
from service.runner.rpc.requests import SetInput
from service.runner.runner import Runner
from service.schemas.decisions import Decision
from service.schemas.slo import MachineBudgetRequest
from service.schemas.spec import InputSpec, RunSpec, TelemetrySpec
from tests.support.waiting import eventually, wait_until

PATIENCE_S = 60.0
LIGHT = {"options": {"total_ms": 0, "weights": "1:1:1", "items": 1000}}
MERGED = 'app: synthetic\ncompositions: [{name: together, notation: "Seq(f1,f2,f3)", batch: {items: 7}}]\n'
APPS_DIR = Path(__file__).parents[1] / "support" / "turns"
NAMES = ("first", "second")
THAT_WAITS = {"compute": "wait", "total_ms": 45, "weights": "1:6:2"}
WORKERS, HIGH_PER_S, LOW_PER_S = 6, 70.0, 5.0


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    store = DaemonStore(None)
    base = RunSpec(app="", pool="local", telemetry=TelemetrySpec(folder=str(tmp_path)))
    daemon = Daemon({"synthetic": registry.find("synthetic")}, LocalHost(Runner), store, base)
    with TestClient(create_app(daemon), base_url="http://127.0.0.1:8080") as client:
        yield client
    store.close()


def until(client: TestClient, true: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    return eventually(lambda: dict(client.get("/status/synthetic").json()), true, PATIENCE_S)


def travelled(folder: Path) -> list[int]:
    """How many items left together, one number an item, in the order of the input."""
    tables = [parquet.read_table(file, partitioning=None) for file in (folder / "items").glob("*.parquet")]
    rows = [row for table in tables for row in table.select(["serial", "batch"]).to_pylist()]
    return [row["batch"] for row in sorted(rows, key=lambda row: row["serial"])]


def test_what_is_asked_for_while_it_runs_is_what_travels(client: TestClient, tmp_path: Path) -> None:
    start = {**LIGHT, "batching": {"items": 1}, "mode": "observe"}
    client.post("/apps/synthetic/start", json=start).raise_for_status()
    until(client, lambda status: status["items"]["delivered"] >= 100)
    first = until(client, lambda status: status["batching"]["size"] is not None)["batching"]
    assert (first["size"], first["reason"], first["controller"]) == (1, "as requested", "fixed")

    client.put("/apps/synthetic/batching", json={"items": 64}).raise_for_status()
    told = until(client, lambda status: status["batching"]["size"] == 64)
    until(client, lambda status: status["items"]["delivered"] >= told["items"]["accepted"] + 1000)

    headers = {"content-type": "application/yaml"}
    client.post("/compositions", content=MERGED, headers=headers).raise_for_status()
    client.put("/apps/synthetic/mode", json={"mode": "pinned", "composition": "together"}).raise_for_status()
    own = until(client, lambda status: status["batching"]["size"] == 7)
    assert own["batching"]["reason"] == "set by composition together"
    until(client, lambda status: status["items"]["delivered"] >= own["items"]["accepted"] + 1000)

    client.put("/apps/synthetic/mode", json={"mode": "pinned", "composition": "1"}).raise_for_status()
    client.put("/apps/synthetic/batching", json={"linger_ms": 1}).raise_for_status()
    left_open = until(client, lambda status: "hop" in (status["batching"]["reason"] or ""))["batching"]
    assert (left_open["items"], left_open["controller"], left_open["linger_ms"]) == ("auto", "auto", 1.0)
    assert left_open["size"] > 1, "stages that do nothing are cheap against their hops"

    client.post("/apps/synthetic/stop").raise_for_status()
    items = until(client, lambda status: status["state"] == "stopped")["items"]
    assert (items["failed"], items["shed"], items["delivered"]) == (0, 0, items["accepted"])
    sizes = travelled(tmp_path)
    assert set(sizes[:100]) == {1}
    assert {64, 7} <= set(sizes)


def test_a_controller_is_named_and_explained_while_it_runs(client: TestClient) -> None:
    paced = {**LIGHT, "mode": "observe", "input": {"rate_per_s": 500}}
    client.post("/apps/synthetic/start", json=paced).raise_for_status()
    until(client, lambda status: status["batching"]["size"] not in (None, 1))
    faf = {"controller": "faf", "settings": {"step": 20, "sample": 1}}
    client.put("/apps/synthetic/batching", json=faf).raise_for_status()
    waits = until(client, lambda status: "needs a latency objective" in status["batching"]["reason"])["batching"]
    assert (waits["asked"], waits["controller"]) == ("faf", "auto")

    slo = {"app": "synthetic", "metric": "latency", "target": 200}
    client.post("/slo", json=slo).raise_for_status()
    steered = until(client, lambda status: status["batching"]["controller"] == "faf")["batching"]
    assert {"target_ms": 200.0, "step": 20.0, "sample": 1}.items() <= steered["settings"].items()
    moved = until(client, lambda status: status["batching"]["size"] > 20)["batching"]
    assert moved["reason"].startswith("faf: latency ")

    client.put("/apps/synthetic/batching", json={}).raise_for_status()
    until(client, lambda status: status["batching"]["controller"] == "slo-batch")
    client.put("/apps/synthetic/batching", json={"items": 5}).raise_for_status()
    until(client, lambda status: status["batching"]["size"] == 5)
    client.post("/apps/synthetic/stop").raise_for_status()
    until(client, lambda status: status["state"] == "stopped")
    told = [each for each in client.get("/decisions/synthetic?limit=1000").json() if each["kind"] == "batching"]
    assert (told[0]["controller"], told[0]["to"], told[0]["reason"]) == ("fixed", 5, "as requested")
    by_faf = [each for each in told if each["controller"] == "faf"]
    assert sum(each["count"] for each in by_faf) > len(by_faf), "changes that follow each other are one entry"
    assert all(each["least"] <= each["to"] <= each["most"] for each in told)


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    store, apps = DaemonStore(None), {name: registry.find(name, [APPS_DIR]) for name in NAMES}
    for name, app in apps.items():
        store.put_overlay(name, {c.name: c for c in generate(app.stages, max_workers=6, replicas=[1, 2, 3, 4])})
    made = Daemon(apps, LocalHost(Runner), store, RunSpec(app="", pool="local", apps_dirs=(str(APPS_DIR),)))
    made.restore()
    yield made
    made.close(drain=False)
    store.close()


def workers(daemon: Daemon, name: str) -> int:
    composition = daemon.observation.status(name).composition
    return 0 if composition is None else composition.workers


def shares(daemon: Daemon) -> dict[str, int | None]:
    return {app: share.workers for app, share in daemon.machine.shares().shares.items()}


def told_of_the_grant(daemon: Daemon, name: str) -> bool:
    """A share that was carried out is told once that is done, or with the decision that the load asked for."""
    made = [each for each in daemon.observation.decisions(name, 100) if isinstance(each, Decision)]
    return any("the arbiter gives" in each.reason for each in made)


def test_each_keeps_to_its_share_which_follows_the_loads_and_is_given_back(daemon: Daemon) -> None:
    def more_for(name: str) -> None:
        """Also workers, once both keep to the budget."""
        wait_until(lambda: (shares(daemon).get(name) or 0) > 3 <= workers(daemon, name))
        wait_until(lambda: sum(workers(daemon, each) for each in NAMES) <= WORKERS)

    daemon.machine.set(MachineBudgetRequest(workers=WORKERS))
    for name, rate_per_s in zip(NAMES, (HIGH_PER_S, LOW_PER_S), strict=True):
        daemon.objectives.set(name, parse_slo("throughput=input_rate"))
        daemon.apps.start(RunSpec(app=name, options=THAT_WAITS, input=InputSpec(rate_per_s=rate_per_s)))
    more_for("first")
    for name, rate_per_s in zip(NAMES, (LOW_PER_S, HIGH_PER_S), strict=True):
        daemon.apps.set(name, SetInput(InputSpec(rate_per_s=rate_per_s)))
    more_for("second")
    grant = daemon.observation.status("second").resources.grant
    assert grant.total.workers == WORKERS
    wait_until(lambda: any(told_of_the_grant(daemon, name) for name in NAMES))
    daemon.apps.set_mode("first", Mode.PINNED, None)
    wait_until(lambda: daemon.observation.status("first").resources.grant is None)  # nobody limits what is pinned
    daemon.apps.stop("first")
    wait_until(lambda: shares(daemon) == {"second": WORKERS})
