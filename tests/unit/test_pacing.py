"""Rates of an input: their patterns, as Garcia et al. (2023, section 3.3) fix them, and the items paced by them, on a
clock that moves only when told; sleeping overshoots as a real one does."""

import math
from itertools import pairwise
from pathlib import Path
from time import monotonic, sleep

import pytest

from apps.rates import Binary, Custom, Decreasing, Fixed, Increasing, Spike, Trace, Wave
from compositions.errors import RecomposeError
from datapipe.sources.pacing import SLICE_S, FrequencyManager
from datapipe.sources.rate_spec import RateSpec, from_spec, read_arrivals
from datapipe.sources.schedule import Offer, Schedule
from profiler.slo import SloStatus, parse_slo
from service.runner.rpc.requests import PushMany, ReadDecisions, ReadStatus, Start
from service.runner.runner import Runner
from service.schemas.spec import InputSpec, RunSpec, SourceSpec
from tests.support.waiting import wait_until

RANGE = {"period_s": 60.0, "min_per_s": 2.0, "max_per_s": 12.0}


class Time:
    """A clock whose waits take ``overshoot_s`` longer than asked."""

    def __init__(self, overshoot_s=0.0):
        self.now_s = 100.0
        self.overshoot_s = overshoot_s
        self.waits = []
        self.stop_at_s = float("inf")

    def clock(self):
        return self.now_s

    def wait(self, seconds):
        self.waits.append(seconds)
        if seconds > 0:
            self.now_s += seconds + self.overshoot_s
        return self.now_s >= self.stop_at_s

    def manager(self, pattern, **settings):
        return FrequencyManager(pattern, clock=self.clock, wait=self.wait, **settings)

    def released(self, manager, duration_s, work_s=0.0):
        """When items were released in the next ``duration_s``, the source working ``work_s`` on each."""
        end_s, times = self.now_s + duration_s, []
        self.stop_at_s = end_s
        while manager.turns(1) and self.now_s < end_s:
            times.append(self.now_s)
            self.now_s += work_s
        self.stop_at_s = float("inf")
        return times


@pytest.fixture
def time():
    return Time()


def test_the_first_item_does_not_wait_and_the_next_waits_what_the_source_left_of_the_delay(time):
    manager = time.manager(Fixed(2.0))
    assert manager.turns(1)
    assert time.now_s == 100.0
    time.now_s += 0.150  # the example of the paper: 500 ms less 150 ms of work
    time.waits.clear()
    assert manager.turns(1)
    assert sum(time.waits) == pytest.approx(0.350)


def test_a_pattern_may_count_items_as_in_listing_1_of_the_paper(time):
    """10 items/s at first, 0.5 more with each item: the wait after item n is 1 / (10 + 0.5 n)."""
    manager = time.manager(Custom(lambda elapsed_s, items: 10 + 0.5 * items))
    times = time.released(manager, 4.0)
    waits_s = [later - before for before, later in pairwise(times)]
    assert waits_s == pytest.approx([1 / (10 + 0.5 * item) for item in range(1, len(times))], rel=1e-3)
    manager.set_pattern(Custom(lambda elapsed_s, items: 10 + 0.5 * items, factor=2.0))
    again = time.released(manager, 1.0)
    assert again[2] - again[1] == pytest.approx(1 / 21.5, rel=0.1), "a new pattern counts from its own first item"


@pytest.mark.parametrize("rate_per_s", [0.5, 10.0, 100.0, 1000.0, 5000.0])
def test_mean_rate_does_not_drift_though_every_sleep_overshoots(rate_per_s):
    time = Time(overshoot_s=100e-6)
    items = 400
    times = time.released(time.manager(Fixed(rate_per_s)), items / rate_per_s, work_s=20e-6)
    assert len(times) == pytest.approx(items, rel=0.02)


@pytest.mark.parametrize(("catch_up", "at_once", "missed"), [({}, 2, 48), ({"catch_up_items": 100}, 50, 0)])
def test_after_a_blocked_source_at_most_one_item_is_made_up_for_unless_more_are_asked_for(catch_up, at_once, missed):
    time = Time()
    manager = time.manager(Fixed(10.0), **catch_up)
    manager.turns(1)
    time.now_s += 5.0
    times = time.released(manager, 1.0)
    assert times.count(105.0) == at_once
    assert times[at_once] == pytest.approx(105.1)
    assert manager.missed == missed


def test_zero_rate_waits_in_slices_and_can_be_stopped(time):
    manager = time.manager(Binary(10.0, 0.0, 5.0))
    time.stop_at_s = 103.0
    assert not manager.turns(1)
    assert max(time.waits) <= SLICE_S
    time.stop_at_s = float("inf")
    assert manager.turns(1)
    assert time.now_s == pytest.approx(105.0, abs=2 * SLICE_S)


def test_replaced_pattern_begins_now_and_ends_a_long_wait(time):
    manager = time.manager(Fixed(0.001))
    manager.turns(1)
    time.now_s += 50.0
    manager.set_pattern(Increasing(10.0, 0.0, 20.0))
    assert manager.offered_per_s(150.0) == 0.0
    assert manager.offered_per_s(155.0) == 10.0
    assert len(time.released(manager, 10.0)) == pytest.approx(100, abs=2)


def test_unpaced_never_waits_but_stops_and_may_be_paced_later(time):
    manager = time.manager(None)
    assert all(manager.turns(1) for _ in range(100))
    assert time.now_s == 100.0
    assert manager.offered_per_s(100.0) is None
    time.stop_at_s = 100.0
    assert not manager.turns(1)
    time.now_s += 60.0
    manager.set_pattern(Fixed(10.0))
    assert len(time.released(manager, 1.0)) == pytest.approx(10, abs=1)
    assert manager.missed == 0


def schedule(pattern, **catch_up):
    return Schedule(pattern, 0.0, **({"catch_up_items": 1.0, "catch_up_s": 0.05} | catch_up))


def test_what_is_due_is_exact_for_a_linear_rate_whatever_the_steps():
    for looks in (1, 7, 100, 4000):
        ramp = schedule(Increasing(100.0, 0.0, 100.0), catch_up_s=1e9)
        for k in range(looks):
            ramp.advance((k + 1) * 100.0 / looks)
        assert ramp.due == pytest.approx(5001.0)  # the first is due at once


def test_every_slot_tells_when_it_was_due_however_late_it_is_taken():
    """The schedule of a source that is held back for two seconds is the one of a source that is not."""
    prompt, late = schedule(Fixed(10.0), catch_up_s=60.0), schedule(Fixed(10.0), catch_up_s=60.0)
    expected = [slot for k in range(400) if (slot := prompt.take(k / 100)) is not None]
    assert expected == pytest.approx([k / 10 for k in range(40)], abs=1e-6)
    found = [late.take(2.0) for _ in range(20)]
    assert found == pytest.approx(expected[:20], abs=1e-6)
    assert late.lag_s(3.5) == pytest.approx(1.5, abs=1e-6)


def test_due_times_follow_a_pattern_that_rests_and_one_that_replaces_it():
    slots = schedule(Binary(4.0, 0.0, 5.0), catch_up_s=60.0)
    slots.replace(Fixed(1.0), 4.0)
    times = [slots.take(9.0) for _ in range(15)]
    assert times == pytest.approx([2.0 + k / 5 for k in range(10)] + [4.0 + k for k in range(5)], abs=0.03)


def test_a_slow_stream_keeps_the_slot_whose_turn_it_is_and_its_time():
    slots = schedule(Fixed(0.1))
    assert [slots.take(at_s) for at_s in (0.0, 25.0, 25.0)] == pytest.approx([0.0, 10.0, 20.0], abs=1e-6)
    assert slots.missed == 0


def test_offer_counts_what_was_asked_for_whether_it_was_read_or_not(time):
    manager = time.manager(Fixed(10.0), catch_up_s=2.0)
    manager.turns(1)
    time.now_s += 5.0
    offer = manager.offer()
    assert (offer.slots, offer.behind, offer.missed, offer.lag_s) == (51, 21, 29, pytest.approx(2.0, abs=0.01))
    assert time.manager(None).offer() == (0, 0, 0, 0.0)


def test_nothing_was_due_before_reading_began(time):
    manager = time.manager(Fixed(10.0), catch_up_s=10.0)
    time.now_s += 6.0
    manager.begin()
    assert manager.turns(1) == [time.now_s]
    assert manager.offer().behind == 0
    assert len(time.released(manager, 1.0)) == pytest.approx(10, abs=1)


def test_looking_often_does_not_fill_the_memory():
    slots = schedule(Fixed(5000.0), catch_up_s=60.0)
    for k in range(200_000):
        slots.take(k / 20_000)
    assert max(len(slots._time_of), len(slots._slots_by)) < 1000


@pytest.mark.parametrize(
    ("pattern", "points"),
    [
        (Fixed(5.0), {0: 5, 1e6: 5}),
        (Wave(**RANGE), {0: 7, 15: 12, 30: 7, 45: 2, 60: 7, 75: 12}),
        (Binary(**RANGE), {0: 2, 29.9: 2, 30: 12, 59.9: 12, 60: 2, 90: 12}),
        (Increasing(**RANGE), {0: 2, 30: 7, 60: 12, 1000: 12}),
        (Decreasing(**RANGE), {0: 12, 30: 7, 60: 2, 1000: 2}),
        (Spike(**RANGE), {0: 2, 53.9: 2, 57: 7, 59.994: 11.99, 60: 2, 117: 7}),
        (Spike(**RANGE, size_percent=100), {30: 7}),
        (Custom(lambda elapsed_s: elapsed_s + 10), {0: 10, 2.5: 12.5}),
        (Trace((0.0, 1.0, 1.1, 1.2, 10.0), period_s=60.0, max_per_s=12.0), {6: 12}),  # scaled to its busiest rate
    ],
)
def test_pattern_passes_through_the_points_of_the_paper(pattern, points):
    assert {t: pattern(t) for t in points} == pytest.approx(points)


def test_from_spec_reads_a_trace_file(tmp_path):
    file = tmp_path / "trace.txt"
    file.write_text("# arrivals\n3.0\n\n1\n2\n")
    assert from_spec(RateSpec(pattern="trace", path=str(file), period_s=6)) == Trace((1.0, 2.0, 3.0), 6)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"rate_per_s": 0}, "rate_per_s = 0: must be above 0 and finite"),
        ({"rate_per_s": 1, "pattern": "wave"}, "both rate_per_s = 1 and pattern = 'wave'"),
        ({"max_per_s": 5}, "an input without a pattern does not accept max_per_s"),
        ({"pattern": "wavy"}, "unknown input pattern 'wavy'; known patterns are wave, binary"),
        ({"pattern": "wave", "period_s": 5}, "'wave' needs min_per_s, max_per_s as well"),
        ({"pattern": "wave", **RANGE, "min_per_s": 12.0}, "min_per_s = 12, max_per_s = 12: must be 0 <= min_per_s <"),
        ({"pattern": "wave", **RANGE, "period_s": -1}, "period_s = -1: must be above 0"),
        ({"pattern": "spike", **RANGE, "size_percent": 101}, "size_percent = 101: must be above 0 and at most 100"),
        ({"pattern": "trace", "period_s": 5, "path": "/no/such"}, "'/no/such' cannot be read: No such file"),
    ],
)
def test_from_spec_refuses_with_a_sentence(spec, sentence):
    with pytest.raises(RecomposeError, match=sentence):
        from_spec(RateSpec(**spec))


@pytest.mark.parametrize("returned", [-1.0, math.nan, math.inf, "5", None])
def test_custom_pattern_must_return_a_rate(returned):
    with pytest.raises(RecomposeError, match=r"the custom pattern returned .* at 3 s"):
        Custom(lambda _: returned)(3.0)


def test_access_log_times_honour_zone_and_month(tmp_path):
    file = tmp_path / "access.log"
    file.write_text(
        '1.2.3.4 - - [17/May/2015:10:05:47 +0000] "GET / HTTP/1.1" 200 1\n'
        '1.2.3.4 - - [17/May/2015:12:05:03 +0200] "GET / HTTP/1.1" 200 1\n'
        '1.2.3.4 - - [17/May/2015:04:35:07 -0530] "GET / HTTP/1.1" 200 1\n'
    )
    assert read_arrivals(file) == (1431857103.0, 1431857107.0, 1431857147.0)


@pytest.mark.parametrize("line", ["abc", "nan", "[31/Feb/2015:10:05:47 +0000]", "[17/Mai/2015:10:05:47 +0000]"])
def test_trace_line_that_is_neither_form_is_named(tmp_path, line):
    file = tmp_path / "trace.txt"
    file.write_text(f"1.5\n{line}\n")
    with pytest.raises(RecomposeError, match=r"line 2 of trace .*trace\.txt' is .*; must be a time in seconds"):
        read_arrivals(file)


def test_trace_needs_a_length():
    with pytest.raises(RecomposeError, match="arrivals at two or more different times"):
        Trace((3.0, 3.0), period_s=5.0)


class Course(Time):
    """A paced source in virtual time, which has something or not."""

    def __init__(self, rate_per_s: float) -> None:
        super().__init__()
        self.dry = True
        self.pacing = self.manager(Fixed(rate_per_s), dry=lambda: self.dry)

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
    while course.now_s < 110.0:  # after each item nothing is there for a moment, as they come 200 times a second
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
            sleep(0.1)
        began_s = monotonic()
        if kind == "folder":
            (tmp_path / ".aside").write_text("1\n" * 60)
            (tmp_path / ".aside").rename(tmp_path / "a.jsonl")
        else:
            runner.ask(PushMany([1] * 60))
        wait_until(lambda: runner.ask(ReadStatus()).items.delivered == 60)
        assert monotonic() - began_s > 1.2, "no faster than the rate"
        wait_until(lambda: not runner.ask(ReadStatus()).demand.lag_s)
        is_idle(60)
        for decision in runner.ask(ReadDecisions(0, 100)):
            assert "40 items/s" not in decision.model_dump_json()
    finally:
        runner.kill()
