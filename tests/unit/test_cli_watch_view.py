"""The live view of an app in a terminal."""

import io
from typing import Any

import pytest
from rich.console import Console

from apps import registry
from compositions.model import Stage, all_sequential
from compositions.notation import parse
from control.decisions import Mode, State, Trigger
from profiler.slo import SloStatus
from service.cli import render
from service.cli.demo import plan_for
from service.cli.watch_view import WatchView
from service.schemas.compositions import ActiveComposition, Choice
from service.schemas.figures import Items, Latency, StageStatus, Worker
from service.schemas.slo import ObjectiveInForce, SloInForce
from service.schemas.spec import RunSpec
from service.schemas.status import Status, resting
from tests.support.bodies import having
from tests.support.fakes import decision

FERRET = [Stage(name) for name in ("segment", "extract", "rank")]
ACTIVE = ActiveComposition.of(parse("Seq(f1,f2)-Par", FERRET, name="13"))
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
    out = io.StringIO()
    console = Console(file=out, width=120, color_system=None, markup=False)
    console.print(view.fitting(status, console))
    return out.getvalue()


def test_it_shows_the_pipeline_the_rates_the_slo_and_the_decisions() -> None:
    text = drawn(WatchView(lambda: [DECISION]), a_status(last_decision=DECISION))
    first, second = (next(line for line in text.splitlines() if stage in line) for stage in ("segment", "rank 96.4 ms"))
    for part in ("3 waiting", "segment 11.2 ms + extract 24.5 ms", "1 of 1 busy"):
        assert part in first
    for part in ("7 waiting", "Par × 2", "bottleneck", "1 of 2 busy"):
        assert part in second
    for part in ("in 10.0/s   out 9.9/s", "met", "2 failed", "1 → 13"):
        assert part in text


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


def test_what_holds_the_stream_up_is_shown() -> None:
    status = a_status(held_up="3 workers for 4 groups, shared in turn")
    out = io.StringIO()
    Console(file=out, width=120, color_system=None, markup=False).print(render.status_view(status))
    assert "3 workers for 4 groups, shared in turn" in out.getvalue()
    assert "3 workers for 4 groups, shared in turn" in drawn(WatchView(list), status)


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
    ("rates", "high_per_s"),
    [
        pytest.param((20, 40), 24, id="beyond the first composition"),
        pytest.param((20, 25), 21.25, id="within the best"),
        pytest.param((20,), 17, id="where nothing does more than the first, within it"),
        pytest.param((None, None), 17, id="nothing is predicted"),
    ],
)
def test_the_high_input_is_within_the_best_composition(rates: tuple[float | None, ...], high_per_s: float) -> None:
    low, watched, high, last = scenes = plan_for(status([10, 40, 50]), choices(*rates), STEPS_S).scenes
    assert [each.rate_per_s for each in scenes] == pytest.approx([10, high_per_s, high_per_s, 10])
    assert [each.mode for each in scenes] == [Mode.OBSERVE, Mode.OBSERVE, Mode.AUTO, Mode.AUTO]
    assert (low.seconds, watched.seconds + high.seconds, last.seconds) == STEPS_S


def test_the_objective_leaves_room_above_what_is_measured_at_rest() -> None:
    assert plan_for(status([10, 40, 50]), choices(20), STEPS_S).target_ms == 250
    assert plan_for(status([10, 40, 50], latency_ms=130), choices(20), STEPS_S).target_ms == pytest.approx(325)
