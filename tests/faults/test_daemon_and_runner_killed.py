"""SIGKILL to the daemon, and to a runner: what was asked for and what was decided survives."""

import os
import signal
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


def test_a_killed_daemon_comes_back_with_slo_and_history_and_a_killed_runner_leaves_no_worker_behind(
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


@pytest.mark.parametrize("orphan_s", [30, pytest.param(0.2, marks=pytest.mark.long)])
def test_a_killed_runner_of_a_durable_run_goes_on_with_it(tmp_path: Path, orphan_s: float) -> None:
    with daemon(tmp_path) as up:
        options = {"compute": "wait", "total_ms": 30}
        how = {"durability": "exactly-once", "settings": {"orphan_s": orphan_s, "spares": 2}}
        up.send("POST", "/apps/synthetic/start", {"source": "push", "options": options, **how})
        up.wait_for(lambda: up.status("synthetic")["state"] not in ("starting", "stopped"), 60, "the app to be up")
        before = up.status("synthetic")
        taken = up.http.post("/apps/synthetic/items", params={"many": "true"}, json=list(range(50))).json()
        assert taken["serials"] == list(range(50))
        up.wait_for(lambda: len(up.get("/results/synthetic")) >= 5, 30, "some results")
        seen = up.get("/results/synthetic")
        up.wait_for(lambda: len(up.status("synthetic")["workers"]) >= 3, 60, "the spares")
        hung, *others = (worker["pid"] for worker in up.status("synthetic")["workers"])
        os.kill(hung, signal.SIGSTOP)
        os.kill(before["runner_pid"], signal.SIGKILL)
        up.wait_for(lambda: up.status("synthetic").get("runner_pid") not in (None, before["runner_pid"]), 60, "another")
        cursor = {"run": before["run"], "after": seen[-1]["serial"]}
        up.wait_for(lambda: up.status("synthetic")["items"]["delivered"] == 50, 60, "all that was acknowledged")
        behind = up.get("/results/synthetic", **cursor)
        assert [row["serial"] for row in [*seen, *behind]] == list(range(50)), "the cursor goes on"
        after = up.status("synthetic")
        assert (after["run"], after["epoch"], after["durability"]) == (before["run"], 2, "exactly-once")
        up.wait_for(lambda: not psutil.pid_exists(hung), 20, "the worker that hangs to be ended")
        taken_over = {worker["pid"] for worker in after["workers"]} & set(others)
        assert taken_over == (set(others) if orphan_s > 1 else set()), "those that wait are the next runner's"
        assert [psutil.pid_exists(pid) for pid in others] == [orphan_s > 1] * len(others), (
            "those that nobody took have ended"
        )


@pytest.mark.parametrize("dead", ["runner", pytest.param("none", marks=pytest.mark.long)])
def test_workers_of_a_durable_run_end_with_it_also_one_that_hangs(tmp_path: Path, dead: str) -> None:
    with daemon(tmp_path) as up:
        how = {"durability": "restart", "settings": {"spares": 1, "leave_s": 1.0}}
        up.send("POST", "/apps/synthetic/start", {"source": "push", "options": {"compute": "wait"}, **how})
        up.wait_for(lambda: len(up.status("synthetic").get("workers", ())) >= 2, 60, "workers")
        status = up.status("synthetic")
        workers = [worker["pid"] for worker in status["workers"]]
        os.kill(workers[0], signal.SIGSTOP)
        if dead == "runner":
            os.kill(status["runner_pid"], signal.SIGKILL)
        up.send("POST", "/apps/synthetic/stop", None)
        up.wait_for(lambda: not any(map(psutil.pid_exists, workers)), 10, "its workers to end")
        assert up.get("/readyz"), "its Ray is still there"
