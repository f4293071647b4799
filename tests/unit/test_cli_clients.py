"""The thin clients on the real application: tables for people, JSON for programs, sentences for errors; a live view."""

import io
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_in_process import Invoke, invoking, told
from click.testing import CliRunner
from fastapi.testclient import TestClient
from rich.console import Console, RenderableType
from written_telemetry import write, write_items

from apps import registry
from compositions.model import Stage, all_sequential
from compositions.notation import parse
from control.decisions import Mode, State, Trigger
from profiler.slo import SloStatus
from service.api import create_app
from service.cli import main, render
from service.cli.demo import plan_for
from service.cli.http import Client, ServiceError, read
from service.cli.watch_view import WatchView
from service.daemon.store.store import DaemonStore
from service.schemas.base import plain
from service.schemas.compositions import ActiveComposition, AppInfo, Choice
from service.schemas.figures import Items, Latency, StageStatus, Worker
from service.schemas.slo import ObjectiveInForce, SloInForce
from service.schemas.spec import RunSpec, TelemetrySpec
from service.schemas.status import Status, resting
from tests.support.bodies import having
from tests.support.fakes import decision, fake_daemon


@pytest.fixture
def invoke(disk: DaemonStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Invoke]:
    """Runs a command line for a service whose telemetry is in ``tmp_path``."""
    daemon = fake_daemon(disk)
    daemon.telemetry = TelemetrySpec(folder=str(tmp_path))
    with TestClient(create_app(daemon), base_url="http://127.0.0.1:8080") as http:
        http.post("/apps/synthetic/start", json={"input": {"rate_per_s": 10}})
        yield invoking(http, monkeypatch)


@pytest.mark.parametrize(
    ("own", "running", "words", "listed"),
    [
        (True, False, (), ["words"]),
        (True, True, (), ["words", "synthetic"]),
        (True, False, ("--all",), ["words", "synthetic"]),
        (False, False, (), ["synthetic"]),
    ],
)
def test_bundled_apps_are_listed_if_asked_for_or_running_or_alone(
    monkeypatch: pytest.MonkeyPatch, own: bool, running: bool, words: tuple[str, ...], listed: list[str]
) -> None:
    bundled = AppInfo.of(registry.find("synthetic"), [], State.STABLE if running else State.STOPPED)
    users = bundled.model_copy(update={"name": "words", "bundled": False, "running": False})

    monkeypatch.setattr(Client, "get", lambda *_, **__: plain([users, bundled] if own else [bundled]))
    rows = told(CliRunner().invoke(main, ["apps", *words])).splitlines()[1:]
    assert [row.split()[0] for row in rows if not row.startswith(" ")] == listed


def shown(invoke: Invoke, *words: str) -> Any:
    """The JSON that a command prints."""
    return json.loads(told(invoke(*words, "--json")))


def test_an_slo_is_set_and_shown(invoke: Invoke) -> None:
    assert told(invoke("slo", "synthetic", "latency=0.4s")) == "synthetic: latency 400 ms, violated beyond 480 ms\n"
    stored = shown(invoke, "slo", "synthetic", "latency=100ms", "--statistic", "p95")
    assert (stored["target"], stored["statistic"], stored["bound"]) == (100.0, "p95", pytest.approx(120))
    rate = shown(invoke, "slo", "synthetic", "throughput=input_rate", "--threshold", "0.5")
    assert (rate["target"], rate["bound"]) == ("input_rate", pytest.approx(5))


def test_several_objectives_are_set_together_with_a_budget(invoke: Invoke) -> None:
    said = told(invoke("slo", "synthetic", "p95<=400ms", "throughput=input", "--budget", "workers=8"))
    first = "synthetic: p95 latency 400 ms, violated beyond 480 ms"
    assert said == f"{first} and throughput input_rate, violated beyond 8 /s, within 8 workers\n"
    stored = shown(invoke, "slo", "synthetic", "latency=1s", "--budget", "cores=2")
    assert (stored["target"], stored["objectives"], stored["budget"]) == (1000, None, {"workers": None, "cores": 2.0})


def test_status_of_all_and_of_one(invoke: Invoke) -> None:
    invoke("slo", "synthetic", "latency=400ms")
    everything = told(invoke("status"))
    assert "synthetic  stable" in everything
    one = told(invoke("status", "synthetic"))
    assert "items: accepted 0, delivered 0" in one
    assert "latency 400 ms (bound 480 ms): unknown" in one
    assert shown(invoke, "status", "synthetic")["state"] == "stable"
    assert [each["app"] for each in shown(invoke, "status")] == ["synthetic"]


def test_decisions_with_their_reasons(invoke: Invoke) -> None:
    text = told(invoke("decisions", "synthetic"))
    assert "told to run 1" in text
    assert "stays with 1" in text
    assert "1 → 1" not in text
    assert "no SLO is set" in text
    assert {entry["kind"] for entry in shown(invoke, "decisions", "synthetic", "--kind", "no_change")} == {"no_change"}
    assert shown(invoke, "decisions", "synthetic", "--before", "2020-01-01T00:00:00Z") == []
    assert len(shown(invoke, "decisions", "synthetic", "--limit", "1")) == 1


def test_compositions_are_listed_and_added(invoke: Invoke, tmp_path: Path) -> None:
    assert "Seq(f1)-Seq(f2)-Seq(f3)" in told(invoke("compositions", "synthetic"))
    file = tmp_path / "wide.yaml"
    file.write_text('app: synthetic\ncompositions: [{name: wide, notation: "Par*4(f1,f2,f3)"}]')
    assert "wide" in told(invoke("compositions", "synthetic", "--add", str(file)))
    assert shown(invoke, "compositions", "synthetic")[-1]["name"] == "wide"


@pytest.mark.parametrize("words", ["slo nope latency=1ms", "status nope", "decisions nope", "compositions nope"])
def test_what_the_service_refuses_is_one_sentence_and_exit_1(invoke: Invoke, words: str) -> None:
    sentence = "Error: there is no app 'nope'; registered are synthetic (asked of http://127.0.0.1:8080)\n"
    assert told(invoke(*words.split()), 1) == sentence


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "127.0.0.1:8080", "ftp://127.0.0.1", "", "http://[", "x"])
def test_a_service_that_is_not_there(url: str) -> None:
    result = CliRunner().invoke(main, ["status", "--url", url])
    assert told(result, 1).startswith("Error: ")
    assert "start it with recompose serve" in result.stderr or "is not a URL such as" in result.stderr


def test_fields_of_a_later_version_are_no_trouble_and_missing_ones_are_told(invoke: Invoke) -> None:
    known = json.loads(told(invoke("status", "synthetic", "--json")))
    later = {**known, "epoch": 7, "items": {**known["items"], "missed": 3}}
    assert read(Status, later).items.delivered == 0
    with pytest.raises(ServiceError, match=r"not understood \(items: Field required\); is the service of"):
        read(Status, {key: value for key, value in known.items() if key != "items"})


def test_a_budget_is_set_piece_by_piece_shown_and_lifted(invoke: Invoke) -> None:
    assert told(invoke("budget")) == "no budget: each app plans with all cores\n"
    assert told(invoke("budget", "--workers", "8")).startswith("8 workers for all apps together\n")
    answer = json.loads(told(invoke("budget", "synthetic=2:1", "--cores", "1.5", "--json")))
    assert (answer["workers"], answer["cores"]) == (8, 1.5)
    assert answer["apps"] == {"synthetic": {"priority": 2, "floor": 1}}
    assert re.search(r"synthetic +2 +1 +–", told(invoke("budget")))
    assert told(invoke("budget", "--lift")) == "no budget: each app plans with all cores\n"


def test_a_load_that_is_to_come_is_announced_shown_and_taken_back(invoke: Invoke) -> None:
    said = told(invoke("announce", "synthetic", "80", "--from", "2999-01-01T10:00", "--until", "2999-01-01T11:00"))
    assert said == "80 items/s from 2999-01-01 10:00 to 2999-01-01 11:00\n"
    assert f"announced: {said}" in told(invoke("status", "synthetic"))
    assert told(invoke("announce", "synthetic", "--take-back")) == "nothing is announced\n"
    assert "give RATE and --until" in told(invoke("announce", "synthetic", "80"), 2)
    assert "--take-back cannot be combined" in told(invoke("announce", "synthetic", "80", "--take-back"), 2)


def test_a_budget_that_is_none_says_what_would_be_accepted(invoke: Invoke) -> None:
    for terms in ("synthetic=high", "synthetic=2:nan", "synthetic=2:1e9"):
        assert f"'{terms}' is not understood; give ferret=2 for priority 2" in told(invoke("budget", terms), 2)
    assert "a budget needs workers or cores" in told(invoke("budget", "synthetic=2"), 1)
    assert "there is no app 'words'" in told(invoke("budget", "--workers", "8", "words=2"), 1)
    assert "--lift cannot be combined" in told(invoke("budget", "--lift", "--workers", "8"), 2)


def test_an_item_is_traced_by_its_number_and_the_slowest_are_listed(invoke: Invoke, tmp_path: Path) -> None:
    write_items(tmp_path, 0, [0.3, 1.5], app="synthetic", began_s=time.time() - 30)
    one = told(invoke("trace", "synthetic", "1"))
    assert re.search(r"^1 .+ 1,500\.0 ms +50\.0 ms +1,354\.0 ms +rank 96\.0 ms +13 +delivered", one, re.MULTILINE), one
    slowest = json.loads(told(invoke("trace", "synthetic", "--slowest", "2", "--json")))
    assert [each["serial"] for each in slowest] == [1, 0]
    assert "item 7 of synthetic is not in the telemetry" in told(invoke("trace", "synthetic", "7"), 1)
    assert len(told(invoke("trace", "synthetic", "--last", "1")).splitlines()) == 1, "nothing but the heads"


def test_runs_are_listed_and_compared(invoke: Invoke, tmp_path: Path) -> None:
    write(tmp_path, 0, "synthetic", run="old", slo_status="violated")
    write(tmp_path, 9, "synthetic", run="new")
    listed = told(invoke("runs", "synthetic")).splitlines()
    assert [line.split()[0] for line in listed[1:]] == ["new", "old"]
    beside = told(invoke("compare", "synthetic"))
    assert re.search(r"^ +old +new", beside, re.MULTILINE), beside
    assert re.search(r"^objective +latency 400 ms, violated beyond 480 ms", beside, re.MULTILINE), beside
    assert re.search(r"^met +0\.0% of the time +100\.0% of the time", beside, re.MULTILINE), beside
    (new,) = json.loads(told(invoke("compare", "synthetic", "new", "--json")))
    assert (new["run"], new["slo_met_share"]) == ("new", 1.0)
    assert "run 'x' of synthetic is not in the telemetry" in told(invoke("compare", "synthetic", "x"), 1)


# --- the live view of an app ---------------------------------------------------------------------------------------


FERRET = [Stage(name) for name in ("segment", "extract", "rank")]
ACTIVE = ActiveComposition.of(parse("Seq(f1,f2)-Par", FERRET, name="13"))
CONSOLE = Console(width=120, color_system=None, markup=False)
HELD_UP = "3 workers for 4 groups, served in turn"
DECISION = decision(1, Trigger.VIOLATION, "1", "13", None)


def stages(times_ms: dict[str, float], bottleneck: str = "") -> list[StageStatus]:
    rest = {"kind": "stateless", "samples": 9, "cpu_time_ms": None, "cv": None}
    return [StageStatus(name=k, service_time_ms=ms, bottleneck=k == bottleneck, **rest) for k, ms in times_ms.items()]


def a_status(**more: Any) -> Status:
    worker = Worker(id="w", pid=1, node="local", group=1, outstanding=1, restarts=0)
    known = {
        "app": "ferret",
        "state": State.STABLE,
        "composition": ACTIVE,
        "slo": SloInForce(metric="latency", target=400, threshold=0.2, statistic="mean", bound=480),
        "slo_status": SloStatus.MET,
        "input_rate_per_s": 10.0,
        "throughput_per_s": 9.9,
        "latency_ms": Latency(mean=181.0, p50=None, p95=260.0, p99=None),
        "stages": stages({"segment": 11.2, "extract": 24.5, "rank": 96.4}, "rank"),
        "workers": [worker, *(worker.model_copy(update=each) for each in ({"group": 0}, {"outstanding": 0}))],
        "queued": 3,
        "in_flight_by_stage": {"segment": 1, "rank": 8},
        "items": Items(accepted=1200, delivered=1197, failed=2, shed=0),
        "switches": 1,
    }
    return having(resting(registry.find("synthetic"), State.STABLE, RunSpec(app="ferret"), None), {**known, **more})


def drawn(view: WatchView, status: Status) -> str:
    return printed(view.fitting(status, CONSOLE))


def printed(shown: RenderableType) -> str:
    with CONSOLE.capture() as out:
        CONSOLE.print(shown)
    return out.get()


def test_it_shows_the_pipeline_the_rates_the_slo_the_decisions_and_what_holds_the_stream_up() -> None:
    status = a_status(last_decision=DECISION, held_up=HELD_UP)
    text = drawn(WatchView(lambda: [DECISION]), status)
    first, second = (next(line for line in text.splitlines() if stage in line) for stage in ("segment", "rank 96.4 ms"))
    for part in ("3 waiting", "segment 11.2 ms + extract 24.5 ms", "1 of 1 busy"):
        assert part in first
    for part in ("7 waiting", "Par × 2", "bottleneck", "1 of 2 busy"):
        assert part in second
    for part in ("in 10.0/s   out 9.9/s", "met", "2 failed", "1 → 13", HELD_UP):
        assert part in text
    assert HELD_UP in printed(render.status_view(status))


@pytest.mark.parametrize(("width", "height"), [(80, 24), (80, 13), (200, 60)])
def test_it_fits_the_terminal(width: int, height: int) -> None:
    long = DECISION.model_copy(update={"reason": "rank is slow, and this is said at some length; " * 6})
    view = WatchView(lambda: [long] * 12)
    p95 = ObjectiveInForce(metric="latency", target=500, threshold=0.2, statistic="p95", bound=600)
    slo = SloInForce(**{**dict(p95), "objectives": [p95, p95.model_copy(update={"statistic": "mean"})]})
    terminal: dict[str, Any] = {"file": io.StringIO(), "width": width, "force_terminal": True, "color_system": None}
    console, tall = Console(**terminal, height=height), Console(**terminal, height=100)
    status = a_status(slo=slo)
    for _ in range(40):  # a column of each bar
        view.fitting(status, tall)
    shown = view.fitting(status, console)
    lines = ["".join(part.text for part in line) for line in console.render_lines(shown)]
    assert len(lines) < height
    text = "\n".join(lines)
    assert "rank 96.4 ms ▲ bottleneck" in text
    assert ("1 → 13" in text) == (height > 13)
    assert "█" in text


def test_an_app_that_does_not_run_shows_its_stages() -> None:
    text = drawn(WatchView(list), a_status(composition=None, workers=[], state=State.FAILED, failure="x\nno memory"))
    assert "not running" in text
    assert "extract 24.5 ms" in text
    assert "no memory" in text


# --- the plan of the demo ---------------------------------------------------------------------------------------------


RESTING = resting(registry.find("synthetic"), State.STABLE, RunSpec(app="synthetic"), None)
STEPS_S = (1.0, 10.0, 2.0)


def status(times_ms: list[float], latency_ms: float | None = None) -> Status:
    known = {
        "stages": stages({f"f{number}": time_ms for number, time_ms in enumerate(times_ms)}),
        "composition": ActiveComposition.of(all_sequential([Stage(f"f{number}") for number in range(len(times_ms))])),
        "latency_ms": Latency(mean=None, p50=latency_ms, p95=None, p99=None),
    }
    return having(RESTING, known)


def choices(*rates: float | None) -> list[Choice]:
    rest = {"app": "synthetic", "active": False, "predicted_latency_ms": None, **dict(ACTIVE)}
    return [Choice(predicted_throughput_per_s=rate, **rest) for rate in rates]


@pytest.mark.parametrize(
    ("rates", "at_rest_ms", "high_per_s", "target_ms"),
    [
        pytest.param((20, 40), None, 24, 250, id="beyond the first composition"),
        pytest.param((20, 25), 130, 21.25, 325, id="within the best"),
        pytest.param((20,), None, 17, 250, id="where nothing does more than the first, within it"),
        pytest.param((None, None), None, 17, 250, id="nothing is predicted"),
    ],
)
def test_the_high_input_is_within_the_best_composition_and_the_objective_leaves_room_above_what_is_measured_at_rest(
    rates: tuple[float | None, ...], at_rest_ms: float | None, high_per_s: float, target_ms: float
) -> None:
    plan = plan_for(status([10, 40, 50], at_rest_ms), choices(*rates), STEPS_S)
    low, watched, high, last = plan.scenes
    assert [each.rate_per_s for each in plan.scenes] == pytest.approx([10, high_per_s, high_per_s, 10])
    assert [each.mode for each in plan.scenes] == [Mode.OBSERVE, Mode.OBSERVE, Mode.AUTO, Mode.AUTO]
    assert (low.seconds, watched.seconds + high.seconds, last.seconds) == STEPS_S
    assert plan.target_ms == pytest.approx(target_ms)
