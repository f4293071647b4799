"""The live view of an app in a terminal."""

import io
from typing import Any

import pytest
from rich.console import Console

from apps import registry
from compositions.batching import Batching
from control.decisions import State, Trigger
from profiler.slo import SloStatus
from service.cli import render
from service.cli.http import ServiceError
from service.cli.watch_view import WatchView, spark, waiting
from service.schemas.batching import BatchingStatus
from service.schemas.compositions import ActiveComposition, Group
from service.schemas.decisions import Decision
from service.schemas.figures import Items, Latency, StageStatus, Worker
from service.schemas.slo import ObjectiveInForce, SloInForce
from service.schemas.spec import RunSpec
from service.schemas.status import Status, resting
from tests.support.bodies import having

GROUPS = [
    Group(stages=["segment", "extract"], pattern="seq", replicas=1),
    Group(stages=["rank"], pattern="par", replicas=2),
]
ACTIVE = ActiveComposition(name="13", notation="Seq(segment,extract)-Par(rank)", workers=3, groups=GROUPS)
DECISION = Decision(
    id=1,
    at="2026-01-01T10:00:00Z",
    trigger=Trigger.VIOLATION,
    from_="1",
    to="13",
    reason="rank is slow",
    candidates=[],
    trials=0,
    duration_s=1.0,
    gap_ms=None,
    drain_estimate_ms=None,
    drain_actual_ms=None,
)


def a_worker(group: int, outstanding: int) -> Worker:
    return Worker(id="w", pid=1, node="local", group=group, outstanding=outstanding, restarts=0)


def a_status(**more: Any) -> Status:
    names = {"segment": 11.2, "extract": 24.5, "rank": 96.4}
    rest = {"kind": "stateless", "samples": 9, "cpu_time_ms": None, "cv": None}
    known = {
        "app": "ferret",
        "state": State.STABLE,
        "composition": ACTIVE,
        "slo": SloInForce(metric="latency", target=400, threshold=0.2, statistic="mean", bound=480),
        "slo_status": SloStatus.MET,
        "input_rate_per_s": 10.0,
        "throughput_per_s": 9.9,
        "latency_ms": Latency(mean=181.0, p50=None, p95=260.0, p99=None),
        "stages": [
            StageStatus(name=name, service_time_ms=cost, bottleneck=name == "rank", **rest)
            for name, cost in names.items()
        ],
        "workers": [a_worker(group, busy) for group, busy in ((0, 1), (1, 1), (1, 0))],
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
    lines = text.splitlines()
    first = next(line for line in lines if "segment" in line)
    assert "3 waiting" in first
    assert "segment 11.2 ms + extract 24.5 ms" in first
    assert "1 of 1 busy" in first
    second = next(line for line in lines if "rank 96.4 ms" in line)
    assert "7 waiting" in second
    assert "Par × 2" in second
    assert "bottleneck" in second
    assert "1 of 2 busy" in second
    assert "in 10.0/s   out 9.9/s" in text
    assert "met" in text
    assert "2 failed" in text
    assert "1 → 13" in text


@pytest.mark.parametrize(("width", "height"), [(80, 24), (80, 13), (200, 60)])
def test_it_fits_the_terminal(width: int, height: int) -> None:
    long = DECISION.model_copy(update={"reason": "rank is slow, and this is said at some length; " * 6})
    view = WatchView(lambda: [long] * 12)
    p95 = ObjectiveInForce(metric="latency", target=500, threshold=0.2, statistic="p95", bound=600)
    slo = SloInForce(**{**dict(p95), "objectives": [p95, p95.model_copy(update={"statistic": "mean"})]})
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    for _ in range(200):
        shown = view.fitting(a_status(slo=slo), console)
    lines = ["".join(part.text for part in line) for line in console.render_lines(shown)]
    assert len(lines) < height
    text = "\n".join(lines)
    assert "rank 96.4 ms ▲ bottleneck" in text
    assert ("1 → 13" in text) == (height > 13)
    assert "█" in text


def test_decisions_are_asked_for_only_when_there_are_new_ones() -> None:
    asked = []
    view = WatchView(lambda: asked.append(1) or [DECISION])  # type: ignore[func-returns-value]
    for _ in range(8):
        drawn(view, a_status(last_decision=DECISION))
    assert len(asked) == 1
    drawn(view, a_status(last_decision=DECISION.model_copy(update={"outcome": "as predicted"})))
    assert len(asked) == 2


def test_a_service_that_does_not_tell_its_decisions_is_asked_again() -> None:
    answers: list[Any] = [ServiceError("busy"), [DECISION]]

    def ask() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    view = WatchView(ask)
    assert "1 → 13" not in drawn(view, a_status(composition=None, workers=[]))
    assert "1 → 13" in drawn(view, a_status())


def test_an_app_that_does_not_run_shows_its_stages() -> None:
    text = drawn(WatchView(list), a_status(composition=None, workers=[], state=State.FAILED, failure="x\nno memory"))
    assert "not running" in text
    assert "extract 24.5 ms" in text
    assert "no memory" in text


@pytest.mark.parametrize(
    ("values", "bars"), [([], ""), ([None, 0.0, 5.0, 10.0], " ▁▅█"), ([0.0, 0.0], "▁▁"), ([None], " ")]
)
def test_a_course_as_bars(values: list[float | None], bars: str) -> None:
    assert spark(values) == bars


def test_what_a_worker_holds_does_not_wait() -> None:
    assert waiting({"rank": 1}, GROUPS[1], [a_worker(1, 2)]) == 0
    assert waiting({}, GROUPS[1], []) == 0


def test_what_holds_the_stream_up_is_shown() -> None:
    status = a_status(held_up="3 workers for 4 groups, shared in turn")
    out = io.StringIO()
    Console(file=out, width=120, color_system=None, markup=False).print(render.status_view(status))
    assert "3 workers for 4 groups, shared in turn" in out.getvalue()
    assert "3 workers for 4 groups, shared in turn" in drawn(WatchView(list), status)


def test_how_many_items_a_bundle_may_hold_is_shown_while_it_runs() -> None:
    status = a_status(
        batching=BatchingStatus.of(
            Batching(), controller="auto", size=16, reason="a hop of 0.3 ms is dear against 0.2 ms of work"
        )
    )
    told = "at most 16 items (auto: a hop of 0.3 ms is dear against 0.2 ms of work)"
    assert render.batching_text(status) == told
    assert told in drawn(WatchView(list), status)
    assert render.batching_text(a_status()) is None, "nobody has decided it yet"
    assert "in a bundle" not in drawn(WatchView(list), a_status())
