"""SIGKILL to the daemon and to a runner: what was asked for and what was decided survives."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from lab.benchmarks.daemon import Daemon, daemon

SLO = {"app": "synthetic", "metric": "throughput", "target": "input_rate"}


def decisions(up: Daemon) -> list[dict[str, Any]]:
    return [entry for entry in up.get("/decisions/synthetic") if entry["kind"] == "decision"]


def works(up: Daemon) -> bool:
    status = up.status("synthetic")
    return status["items"]["delivered"] >= 50 and status["slo_status"] == "met"


def test_a_killed_daemon_keeps_slo_and_history_and_a_killed_runner_leaves_no_worker(
    tmp_path: Path,
) -> None:
    with daemon(tmp_path) as up:
        up.send("POST", "/slo", SLO)
        up.send("POST", "/apps/synthetic/start", {"input": {"rate_per_s": 150}, "options": {"compute": "wait"}})
        up.wait_for(lambda: bool(decisions(up)), 60, "a decision")
        slo, known = up.get("/slo/synthetic"), decisions(up)
        up.kill()
        up.start()
        assert up.get("/slo/synthetic") == slo | {"bound": up.get("/slo/synthetic")["bound"]}
        assert {entry["id"] for entry in decisions(up)} >= {entry["id"] for entry in known}
        assert [entry["reason"] for entry in decisions(up)][-len(known) :] == [entry["reason"] for entry in known]
        up.wait_for(lambda: works(up), 60, "the app to run again under its SLO")
        _kill_the_runner(up)


def _kill_the_runner(up: Daemon) -> None:
    before = up.status("synthetic")
    workers = {worker["pid"] for worker in before["workers"]}
    cursor = {"run": before["run"], "after": up.get("/results/synthetic", limit=1)[0]["serial"]}
    os.kill(before["runner_pid"], signal.SIGKILL)
    up.wait_for(lambda: up.status("synthetic").get("runner_pid") != before["runner_pid"], 30, "a new runner")
    up.wait_for(lambda: works(up), 60, "the app to run again under its SLO")
    up.wait_for(lambda: not any(map(psutil.pid_exists, workers)), 20, "the old workers to end")
    after = up.status("synthetic")
    assert after["slo"]["metric"] == "throughput"
    assert (after["epoch"], after["run"] != before["run"]) == (before["epoch"] + 1, True)
    again = [entry for entry in decisions(up) if entry["trigger"] == "failure" and entry["run"] == after["run"]]
    assert [after["started_again"] in entry["reason"] for entry in again] == [True]
    told = up.http.get("/results/synthetic", params=cursor)
    assert (told.status_code, told.json()["run"]) == (410, after["run"]), "never the items of another run"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon(tmp_path_factory.mktemp("state")) as up:
        yield up


def start(up: Daemon, durability: str, workers: int, **settings: float) -> dict[str, Any]:
    """The status when it is up, with so many workers."""
    how = {"durability": durability, "options": {"compute": "wait", "total_ms": 30}, "settings": settings}
    up.send("POST", "/apps/synthetic/start", {"source": "push", **how})
    up.wait_for(lambda: len(up.status("synthetic").get("workers", ())) >= workers, 60, "workers")
    return up.status("synthetic")


@pytest.mark.parametrize("orphan_s", [30, pytest.param(0.2, marks=pytest.mark.long)])
def test_a_killed_runner_of_a_durable_run_goes_on_with_it(served: Daemon, orphan_s: float) -> None:
    before = start(served, "exactly-once", 3, orphan_s=orphan_s, spares=2)
    taken = served.http.post("/apps/synthetic/items", params={"many": "true"}, json=list(range(50))).json()
    assert taken["serials"] == list(range(50))
    served.wait_for(lambda: len(served.get("/results/synthetic")) >= 5, 30, "some results")
    seen = served.get("/results/synthetic")
    hung, *others = (worker["pid"] for worker in served.status("synthetic")["workers"])
    os.kill(hung, signal.SIGSTOP)
    os.kill(before["runner_pid"], signal.SIGKILL)
    known = (None, before["runner_pid"])
    served.wait_for(lambda: served.status("synthetic").get("runner_pid") not in known, 60, "another")
    cursor = {"run": before["run"], "after": seen[-1]["serial"]}
    served.wait_for(lambda: served.status("synthetic")["items"]["delivered"] == 50, 60, "all that was acknowledged")
    behind = served.get("/results/synthetic", **cursor)
    assert [row["serial"] for row in [*seen, *behind]] == list(range(50)), "the cursor goes on"
    after = served.status("synthetic")
    assert (after["run"], after["epoch"], after["durability"]) == (before["run"], before["epoch"] + 1, "exactly-once")
    served.wait_for(lambda: not psutil.pid_exists(hung), 20, "the worker that hangs to be ended")
    taken_over = {worker["pid"] for worker in after["workers"]} & set(others)
    assert taken_over == (set(others) if orphan_s > 1 else set()), "those that wait are the next runner's"
    left = [psutil.pid_exists(pid) for pid in others]
    assert left == [orphan_s > 1] * len(others), "those that nobody took have ended"
    served.send("POST", "/apps/synthetic/stop", None)


@pytest.mark.parametrize("dead", ["runner", pytest.param("none", marks=pytest.mark.long)])
def test_workers_of_a_durable_run_end_with_it_also_one_that_hangs(served: Daemon, dead: str) -> None:
    status = start(served, "restart", 2, spares=1, leave_s=1.0)
    workers = [worker["pid"] for worker in status["workers"]]
    os.kill(workers[0], signal.SIGSTOP)
    if dead == "runner":
        os.kill(status["runner_pid"], signal.SIGKILL)
    served.send("POST", "/apps/synthetic/stop", None)
    served.wait_for(lambda: not any(map(psutil.pid_exists, workers)), 10, "its workers to end")
    assert served.get("/readyz"), "its Ray is still there"
