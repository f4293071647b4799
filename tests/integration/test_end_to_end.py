"""The main job through the front door, by REST and by the page: a real daemon, real Ray workers, an SLO, a rate that
changes, real decisions; and the demo as a newcomer sees it, shortened."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from browser import CHROMIUM, DRIVER, Browser
from dashboard_rig import page
from selenium.webdriver import Chrome as Driver

from apps.synthetic.app import SyntheticOptions
from lab.benchmarks.daemon import Daemon, daemon
from lab.simulation.synthetic_checks import verify

OPTIONS: dict[str, Any] = {"compute": "wait"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon(tmp_path_factory.mktemp("state")) as up:
        yield up


@pytest.fixture
def running(served: Daemon) -> Iterator[Daemon]:
    """The daemon, with nothing running before and after a test."""
    yield served
    if served.status("synthetic")["state"] not in ("stopped", "failed"):
        stop(served)
    served.http.delete("/slo/synthetic")


def start(up: Daemon, rate_per_s: float, **more: Any) -> None:
    up.send("POST", "/apps/synthetic/start", {"input": {"rate_per_s": rate_per_s}, "options": OPTIONS, **more})
    up.wait_for(lambda: up.status("synthetic")["items"]["delivered"] >= 20, 60, "20 results")


def stop(up: Daemon) -> dict[str, Any]:
    up.send("POST", "/apps/synthetic/stop", {})
    up.wait_for(lambda: up.status("synthetic")["state"] == "stopped", 30, "the app to stop")
    return up.status("synthetic")


def last_move(up: Daemon) -> tuple[str, str]:
    last = up.status("synthetic")["last_decision"] or {"from": "", "to": ""}
    return last["from"], last["to"]


def force_switch(up: Daemon, to: str) -> dict[str, Any]:
    """Pin a composition; return what the service says of the switch when it is over."""

    def switched() -> bool:
        status = up.status("synthetic")
        last = status["last_switch"]
        return bool(last and last["to"] == to and last["gap_ms"] is not None and status["state"] != "switching")

    up.send("PUT", "/apps/synthetic/mode", {"mode": "pinned", "composition": to})
    up.wait_for(switched, 60, f"the switch to {to}")
    last: dict[str, Any] = up.status("synthetic")["last_switch"]
    return last


def check_results(up: Daemon, accepted: int) -> None:
    results = list(up.results("synthetic"))
    assert accepted <= 2000, "more than the window keeps: this check would see only a part"
    verdict = verify(results, SyntheticOptions(**OPTIONS), accepted=accepted)
    assert verdict.ok, verdict
    assert verdict.delivered == accepted


SLO, MODE, INPUT, RUN = "#act-slo", "#act-mode", "#act-input", "#act-run"
STEADY = '{"compute": "wait", "total_ms": 120}'
"""Stages of 40 ms that sleep: what else the machine does is small beside them."""


@pytest.mark.long  # for every change: tests/integration/test_dashboard.py
@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver: make browser")
def test_a_run_from_start_to_adaptation_by_hand(running: Daemon, chromium: Driver) -> None:
    """Everything through the page: start, SLO, a rate that rises, the switch, its decision, a pin."""
    with page(f"http://127.0.0.1:{running.port}", chromium) as seen:
        seen.open("#/app/synthetic")
        seen.sees("Nothing runs.", ".notices")
        seen.write("Rate", "10", RUN)
        seen.choose("First composition", "1 · Seq(f1)-Seq(f2)-Seq(f3)", RUN)
        seen.write("Options, as JSON", STEADY, RUN)
        seen.press("Start", RUN)
        seen.sees("stable", ".head", seconds=60)
        seen.until(lambda: seen.texts(".tile:nth-child(2) b")[0] not in ("–", "0.0"), "a throughput")

        seen.unfold(SLO)
        seen.choose("Keep", "throughput", SLO)
        seen.field("equal to the input rate", SLO).click()
        seen.press("Set SLO", SLO)
        seen.sees("SLO met", ".head", seconds=40)
        marks = len(seen.all(".switch-mark"))  # none, but where the machine is busy with other things
        seen.unfold(INPUT)
        seen.write("Rate", "34", INPUT)
        seen.press("Change input", INPUT)
        seen.until(lambda: len(seen.all(".drawing .copy")) == 3, "composition 7: three groups of two", 60)
        seen.until(lambda: len(seen.all(".switch-mark")) > marks, "the mark of the switch")

        seen.sees("→ 7", ".decisions")  # from 1, but for a detour on a machine that is busy with other things
        _open_decision(seen, "→ 7")
        names = [str(number) for number in range(1, 8)]
        seen.until(lambda: sorted(seen.texts(".decisions details[open] tbody th b")) == names, "every candidate")
        seen.sees("late items", ".decisions details[open] summary")
        seen.sees("Gap in the output", ".decisions details[open] .facts")
        seen.sees("Last resize")  # other numbers of replicas alone: nothing was drained

        seen.press("Predict", ".what-if")
        seen.sees("The manager would choose 7", ".what-if")

        seen.unfold(MODE)
        seen.choose("The manager", "keeps one composition", MODE)
        seen.choose("Composition", "4 · Seq(f1)-Seq(f2)-Par(f3)", MODE)
        seen.press("Set mode", MODE)
        seen.until(lambda: len(seen.all(".drawing .copy")) == 1, "composition 4", 40)


def _open_decision(seen: Browser, move: str) -> None:
    def opened() -> bool:
        seen.run("for (const it of document.querySelectorAll('.decisions .episode > details')) it.open = true")
        found = next(each for each in seen.all(".decisions .decision summary") if move in each.text)
        seen.run("arguments[0].scrollIntoView({block: 'center'}); arguments[0].parentNode.open = true", found)
        return True

    seen.until(opened, f"the decision {move}")


def test_adapts_to_a_rising_and_falling_rate_and_tells_why(running: Daemon) -> None:
    start(running, 50)
    stored = running.send("POST", "/slo", {"app": "synthetic", "metric": "throughput", "target": "input_rate"})
    assert stored["bound"] == pytest.approx(40, rel=0.1)
    running.wait_for(lambda: running.status("synthetic")["slo_status"] == "met", 20, "the SLO to be met")
    assert running.status("synthetic")["composition"]["name"] == "1"

    running.send("PUT", "/apps/synthetic/input", {"rate_per_s": 170})
    running.wait_for(lambda: last_move(running)[1] == "7", 60, "the decision for composition 7")
    running.send("PUT", "/apps/synthetic/input", {"rate_per_s": 40})
    running.wait_for(lambda: last_move(running)[1] == "1", 60, "the decision for composition 1")

    accepted = stop(running)["items"]["accepted"]
    entries = running.get("/decisions/synthetic", limit=100)
    decisions = [entry for entry in entries if entry["kind"] == "decision"]
    moves = [(entry["from"], entry["to"]) for entry in reversed(decisions) if entry["from"] != entry["to"]]
    # One step up and one down; the simulation asserts just that (synthetic_balanced.yaml). Here the machine may be busy
    # with other things, and a measurement disturbed by them may cost a detour.
    assert (moves[0][0], moves[-1][1]) == ("1", "1")
    assert "7" in {to for _, to in moves}
    assert len(moves) <= 4
    up = next(entry for entry in decisions if entry["to"] == "7" != entry["from"])
    assert {candidate["name"] for candidate in up["candidates"]} == {"1", "2", "3", "4", "5", "6", "7"}
    assert all(candidate["reason"] for candidate in up["candidates"])
    assert any(entry["kind"] == "no_change" and entry["reason"] for entry in entries)
    if accepted <= 2000:
        check_results(running, accepted)


def test_forced_switches_through_the_api_lose_double_and_reorder_nothing(running: Daemon) -> None:
    running.http.delete("/slo/synthetic")
    start(running, 30)
    seen = [force_switch(running, to) for to in "37164"]
    assert [switch["error"] for switch in seen] == [None] * 5
    status = stop(running)
    assert status["switches"] == 5
    check_results(running, status["items"]["accepted"])


def test_the_demo_adapts_delivers_every_item_and_ends_by_itself() -> None:
    command = [sys.executable, "-m", "service.cli", "demo", "synthetic", "--steps", "3", "12", "8"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = {line[:31].strip(): line[31:].strip() for line in ended.stdout.partition("Summary")[2].splitlines()}
    assert re.fullmatch(r"accepted ([\d,]+), delivered \1, failed 0, shed 0, lost 0, misordered 0", rows["items"]), rows
    assert rows["compositions used"].startswith("1, 7"), "three equal stages beyond their rate: all in parallel"
    assert re.fullmatch(r"1: [\d,]+ ms → 7: [\d,]+ ms", rows["latency at high input"])
    assert "A high load" in ended.stdout
    assert "Objective: mean latency" in ended.stdout
