"""Loads that a user describes: a pattern of one's own, by name, and loads that are to come."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from time import time

import pytest
from pydantic import ValidationError

from apps import registry
from compositions.errors import RecomposeError
from control.manager import Manager
from datapipe.sources.rate_spec import RateSpec, from_spec
from profiler.snapshot import Announcement
from service.cli.objectives import _asked
from service.cli.texts import parse_pattern
from service.daemon.apps import check_change
from service.daemon.objectives import with_another
from service.runner.rpc.requests import ReadStatus, SetInput
from service.runner.runner import Runner
from service.runner.validation.resolution import rate_of
from service.schemas.base import plain
from service.schemas.figures import ComingBody
from service.schemas.refusals import BadValueError
from service.schemas.spec import InputSpec, PlannedLoad
from tests.support.waiting import wait_until

PATTERNS = """
def sawtooth(elapsed_s):
    return 2 + elapsed_s % 3

def broken(elapsed_s):
    return 1 / elapsed_s

def negative(elapsed_s):
    return -1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(PATTERNS)
    (tmp_path / "faulty.py").write_text("1 / 0")
    return tmp_path


def test_it_is_the_same_from_the_command_line_and_in_a_body(folder: Path) -> None:
    given = parse_pattern("custom:mine:sawtooth")
    assert given == InputSpec(pattern="custom:mine:sawtooth")
    rate = rate_of(given, [str(folder)])
    assert [rate(0.0), rate(2.5), rate(3.0)] == [2.0, 4.5, 2.0]
    check_change(SetInput(given), [str(folder)])


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("custom:yours:sawtooth", "there is no module 'yours' in the folders of apps: /"),
        ("custom:mine:square", "module 'mine' has no function 'square'"),
        ("custom:mine:broken", "fails at 0 s: ZeroDivisionError"),
        ("custom:mine:negative", "returned -1 at 0 s; must be items/s, 0 or more and finite"),
        ("custom:faulty:rate", "cannot be loaded: ZeroDivisionError"),
    ],
)
def test_what_is_none_is_refused_before_anything_runs(pattern: str, why: str, folder: Path) -> None:
    with pytest.raises(BadValueError, match=why):
        check_change(SetInput(InputSpec(pattern=pattern)), [str(folder)])


def test_without_folders_of_apps_the_sentence_says_what_to_give() -> None:
    with pytest.raises(RecomposeError, match=r"none was given \(--apps FOLDER\)"):
        rate_of(InputSpec(pattern="custom:mine:sawtooth"), [])
    with pytest.raises(RecomposeError, match="are in the folders of apps"):
        from_spec(RateSpec(pattern="custom:mine:sawtooth"))


@pytest.mark.parametrize("pattern", ["custom:mine", "custom::f", "custom:a.b", "custom:../x:f", "Custom:a:b", 3, True])
def test_another_form_is_refused(pattern: object) -> None:
    with pytest.raises(ValidationError, match=r"must be wave, binary, .* or custom:MODULE:FUNCTION"):
        InputSpec.model_validate({"pattern": pattern})


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


def test_a_runner_that_is_started_again_believes_what_was_announced(
    begin: Callable[..., Runner], monkeypatch: pytest.MonkeyPatch
) -> None:
    believed: list[Announcement] = []
    monkeypatch.setattr(Manager, "announce", lambda _, announced: believed.extend(announced))
    announced = (coming(time(), time() + 3600, 90.0),)
    runner = begin(registry.find("synthetic"), durability="none", announced=announced)
    wait_until(lambda: believed, PATIENCE_S)
    assert [each.rate_per_s for each in runner.ask(ReadStatus()).requested.announced or ()] == [90.0]
    assert [(each.until_s - each.from_s, each.rate_per_s) for each in believed] == [(pytest.approx(3600), 90.0)]
