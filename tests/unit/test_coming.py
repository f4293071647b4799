"""Loads that were announced: which are remembered, and how they are told."""

from datetime import datetime
from time import time

import pytest

from control.manager import Manager
from profiler.snapshot import Announcement
from service.cli.objectives import _asked
from service.daemon.objectives import with_another
from service.runner.rpc.requests import ReadStatus, Start, Stop
from service.runner.runner import Runner
from service.schemas.base import plain
from service.schemas.figures import ComingBody
from service.schemas.spec import PlannedLoad, RunSpec
from tests.support.waiting import wait_until

NOON = datetime.fromisoformat("2026-11-22T12:00:00+00:00")
PATIENCE_S = 30.0


def coming(from_s: float, until_s: float, rate_per_s: float = 80.0) -> PlannedLoad:
    return PlannedLoad(from_epoch_s=from_s, until_epoch_s=until_s, rate_per_s=rate_per_s)


def test_a_later_word_on_the_same_span_replaces_the_one_before_and_what_is_over_is_forgotten() -> None:
    known = with_another((), coming(100, 110), 0)
    known = with_another(known, coming(50, 60), 0)
    known = with_another(known, coming(100, 110, 30), 0)
    assert known == (coming(50, 60), coming(100, 110, 30))
    assert with_another(known, coming(105, 120), 60) == (coming(100, 110, 30), coming(105, 120))


def test_it_is_told_by_the_clock_of_who_asks() -> None:
    one = coming(1_000_100, 1_000_110)
    assert one.on_clock(1_000_000) == Announcement(100, 110, 80)
    told = [plain(each) for each in ComingBody.all_of((coming(0, 9), one), now_epoch_s=10)]
    assert told == [{"from": "1970-01-12T13:48:20.000Z", "until": "1970-01-12T13:48:30.000Z", "rate_per_s": 80}]


@pytest.mark.parametrize(
    ("begins", "ends", "from_", "until"),
    [
        (None, "18:30", None, "2026-11-22T18:30"),
        ("11:00", "11:30", "2026-11-23T11:00", "2026-11-23T11:30"),
        ("14:00", "13:00", "2026-11-22T14:00", "2026-11-23T13:00"),
        ("23:00", "01:00", "2026-11-22T23:00", "2026-11-23T01:00"),
        ("2026-12-24T18:00+0100", "2026-12-24T20:00+0100", "2026-12-24T17:00", "2026-12-24T19:00"),
    ],
)
def test_a_time_of_the_day_is_the_next_one_or_the_last_that_is_not_over(
    begins: str | None, ends: str, from_: str | None, until: str
) -> None:
    asked = _asked(80.0, _read(begins), _read(ends), NOON)
    assert [asked.from_, asked.until] == [each and datetime.fromisoformat(f"{each}+00:00") for each in (from_, until)]


def _read(text: str | None) -> datetime | None:
    """As click reads it."""
    if text is None:
        return None
    return datetime.strptime(text, "%H:%M") if len(text) == 5 else datetime.fromisoformat(text)


def test_a_runner_that_is_started_again_believes_what_was_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    believed: list[Announcement] = []
    monkeypatch.setattr(Manager, "announce", lambda _, announced: believed.extend(announced))
    now = time()
    spec = RunSpec(app="synthetic", pool="local", announced=(coming(now, now + 3600, 90.0),))
    runner = Runner(spec)
    runner.ask(Start())
    try:
        wait_until(lambda: believed, PATIENCE_S)
        announced = runner.ask(ReadStatus()).requested.announced
    finally:
        runner.ask(Stop(drain=False))
    assert [each.rate_per_s for each in announced or ()] == [90.0]
    (one,) = believed
    assert (one.until_s - one.from_s, one.rate_per_s) == (pytest.approx(3600), 90.0)
