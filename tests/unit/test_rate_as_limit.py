"""An input rate for a source that others fill: a limit to how fast it is read; what has not come is not asked for."""

import time
from pathlib import Path

import pytest

from apps.rates import Fixed
from datapipe.sources.pacing import FrequencyManager
from datapipe.sources.schedule import Offer
from profiler.slo import SloStatus, parse_slo
from service.runner.rpc.requests import PushMany, ReadDecisions, ReadStatus, Start
from service.runner.runner import Runner
from service.schemas.spec import InputSpec, RunSpec, SourceSpec
from tests.support.waiting import wait_until


class Course:
    """A paced source in virtual time, which has something or not."""

    def __init__(self, rate_per_s: float) -> None:
        self.now_s, self.dry = 0.0, True
        clock, wait = lambda: self.now_s, self.wait
        self.pacing = FrequencyManager(Fixed(rate_per_s), clock=clock, wait=wait, dry=lambda: self.dry)

    def wait(self, seconds: float) -> bool:
        self.now_s += seconds
        return False

    def look(self, seconds: float) -> list[Offer]:
        """Time passes, and somebody looks four times a second."""
        offers = []
        for _ in range(int(4 * seconds)):
            self.now_s += 0.25
            offers.append(self.pacing.offer())
        return offers


def test_while_nothing_is_there_nothing_is_asked_for() -> None:
    course = Course(40.0)
    assert set(course.look(60)) == {Offer(0, 0, 0, 0.0)}
    assert len(course.pacing.turns(100) or ()) == 1, "an item that comes need not wait, and no burst follows"


def test_what_is_there_is_asked_for_from_then_on() -> None:
    course = Course(40.0)
    course.pacing.turns(1)
    course.pacing.waits(waits=True)
    course.look(60)
    course.dry = False  # it came while nobody looked
    course.now_s += 0.2
    course.pacing.waits(waits=False)
    assert course.pacing.missed == 0
    late = course.look(10)[-1]
    assert late.missed + late.behind == pytest.approx(400, abs=2)
    assert late.lag_s > 0
    course.dry = True
    assert {(each.missed, each.behind, each.lag_s) for each in course.look(60)} == {(late.missed, 0, 0.0)}


def test_the_rate_is_kept_by_items_that_come_faster_one_by_one() -> None:
    course = Course(40.0)
    taken = 0
    while course.now_s < 10.0:  # after each item nothing is there for a moment, as they come 200 times a second
        taken += len(course.pacing.turns(8) or ())
        course.pacing.waits(waits=True)
        course.now_s += 0.005
        course.pacing.waits(waits=False)
    assert taken == pytest.approx(400, abs=3)


@pytest.mark.parametrize("kind", ["folder", "push"])
def test_an_idle_source_is_idle(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datapipe.sources.folder.LOOK_EVERY_S", 0.1)
    source = SourceSpec(kind="folder", path=str(tmp_path)) if kind == "folder" else SourceSpec(kind="push")
    slo = parse_slo("throughput=input_rate")
    known = {"app": "synthetic", "options": {"total_ms": 0}, "pool": "local", "run": "r"}
    runner = Runner(RunSpec(**known, source=source, input=InputSpec(rate_per_s=40.0), slo=slo))
    runner.ask(Start())

    def is_idle(items: int) -> None:
        status = runner.ask(ReadStatus())
        assert (status.items.accepted, status.demand.missed, status.demand.lag_s) == (items, 0, 0.0)
        assert status.health.held_up is None
        assert status.requested.slo_status not in (SloStatus.VIOLATED, SloStatus.INFEASIBLE)

    try:
        wait_until(lambda: runner.ask(ReadStatus()).demand.offered_per_s is not None)
        for _ in range(20):
            is_idle(0)
            assert not runner.ask(ReadStatus()).demand.offered_per_s
            time.sleep(0.1)
        began_s = time.monotonic()
        if kind == "folder":
            (tmp_path / ".aside").write_text("1\n" * 60)
            (tmp_path / ".aside").rename(tmp_path / "a.jsonl")
        else:
            runner.ask(PushMany([1] * 60))
        wait_until(lambda: runner.ask(ReadStatus()).items.delivered == 60)
        assert time.monotonic() - began_s > 1.2, "no faster than the rate"
        wait_until(lambda: not runner.ask(ReadStatus()).demand.lag_s)
        is_idle(60)
        for decision in runner.ask(ReadDecisions(0, 100)):
            assert "40 items/s" not in decision.model_dump_json()
    finally:
        runner.kill()
