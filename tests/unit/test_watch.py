"""When a decision is due: votes, two windows, up fast and down slowly."""

from dataclasses import replace

from control.assess import Assessment
from control.decisions import Trigger
from control.objectives import objective_of
from control.observation import Backlog
from control.settings import Rhythm
from control.strategies.base import Pace
from control.watch import Due, Watch
from profiler.slo import Slo, SloStatus
from profiler.snapshot import InputNow, LatencyStats, RateOutlook, RateWindow, Snapshot, StageProfile

LATENCY, RATE = objective_of(Slo("latency", 100.0)), objective_of(Slo("throughput", "input_rate"))
MET = Assessment(SloStatus.MET, True, "fine")
MISSED = Assessment(SloStatus.VIOLATED, False, "bad")


def shot(now_s: float, rate: float = 10.0, service_s: float = 0.1) -> Snapshot:
    profile = StageProfile("a", service_s, service_s, 0.1, service_s, service_s, 100)
    windows = InputNow((RateWindow(rate, 1), RateWindow(rate, 1)))
    return Snapshot(
        now_s, "1", False, 0.0, now_s - 10, rate, rate, 100, None, None, 0, 0.0, 1, (profile,), 4, 1, 3e-4, windows
    )


def watch(*, foresees: bool = True, interval_s: float = 1.0, votes: int = 2) -> Watch:
    made = Watch(Rhythm(), Pace(interval_s, votes, foresees))
    made.rebase(shot(0))
    return made


def looks(
    made: Watch, from_s: float, to_s: float, seen: Assessment = MET, rate: float = 10.0
) -> list[tuple[float, Due]]:
    found = []
    for k in range(int((to_s - from_s) * 4)):
        due = made.due(shot(from_s + k / 4, rate), seen)
        if isinstance(due, Due):
            found.append((from_s + k / 4, due))
    return found


def test_two_consecutive_votes_make_a_violation() -> None:
    (first, *_) = looks(watch(), 10, 12, MISSED)
    assert first == (11.0, Due(Trigger.VIOLATION, "bad"))


def test_a_good_look_between_two_bad_ones_starts_the_count_anew() -> None:
    made = watch()
    assert made.due(shot(10), MISSED) == "bad"
    assert made.due(shot(11), MET) == "fine"
    assert made.due(shot(12), MISSED) == "bad"


def test_the_papers_pace_looks_every_ten_seconds() -> None:
    made = watch(foresees=False, interval_s=10, votes=1)
    assert [at for at, _ in looks(made, 0.25, 35, MISSED)] == [10, 20, 30]


def test_a_risen_rate_is_due_at_once_a_fallen_one_when_it_has_lasted() -> None:
    assert looks(watch(), 20, 21, rate=15)[0][1].trigger is Trigger.INPUT_RATE
    (at, due), *_ = looks(watch(), 20, 40, rate=5)
    assert (at, due.trigger) == (30.0, Trigger.INPUT_RATE)


def test_a_dip_releases_nothing() -> None:
    made = watch(foresees=False)
    assert looks(made, 20, 24, rate=5) == []
    assert looks(made, 24, 40) == []


def test_a_change_within_the_threshold_is_none() -> None:
    assert looks(watch(foresees=False), 20, 60, rate=11.9) == []


def test_who_foresees_is_asked_now_and_then_whether_less_would_do() -> None:
    found = looks(watch(), 0, 25)
    assert [(at, due.trigger) for at, due in found] == [(10.0, Trigger.PROFILE), (20.0, Trigger.PROFILE)]
    assert looks(watch(foresees=False), 0, 25) == []


def rough(now_s: float) -> Snapshot:
    """Counted arrivals, of a load that rests."""
    windows = (RateWindow(10.0, 1, counted=True), RateWindow(10.0, 1, counted=True))
    outlook = RateOutlook(10.0, 10.0, 10.5, moving=False, by="the present rate")
    return replace(shot(now_s), input=InputNow(windows, outlook=outlook))


def test_a_rough_load_is_reviewed_once_and_then_left_alone() -> None:
    made, found = watch(), []
    for turn in range(1, 600):
        due = made.due(rough(turn / 4), MET if turn % 40 else MISSED)
        found += [(turn / 4, due.trigger)] if isinstance(due, Due) else []
    assert found == [(15.0, Trigger.PROFILE)]


def test_it_is_reviewed_again_after_it_moved_but_not_long_after() -> None:
    made = watch()
    assert isinstance(made.due(rough(15.0), MET), Due)
    made.met(100.0, MET)
    assert not isinstance(made.due(rough(110.0), MET), Due)
    assert isinstance(made.due(rough(115.0), MET), Due)
    made.met(200.0, MET)
    assert not isinstance(made.due(rough(240.0), MET), Due), "nobody could ask for a while"


def test_a_profile_that_moved_by_a_fifth_has_changed() -> None:
    made = watch()
    assert made.changed(shot(10, service_s=0.119)) is None
    assert made.changed(shot(10, service_s=0.13)) == "service time of a went from 100 to 130 ms"


def test_a_hold_says_why_and_for_how_long() -> None:
    made = watch()
    made.hold(12.0, "just switched to 7")
    made.hold(11.0, "a shorter one does not count")
    assert made.held(10.5) == "just switched to 7; next evaluation in 1.5 s"
    assert made.held(12.0) is None


# --- backlog ---------------------------------------------------------------------------------------------------------


def late(now_s: float, queued: int, throughput: float = 10.0, window_s: float = 5.0) -> Snapshot:
    stats = LatencyStats(0.5, 0.5, 0.5, 0.5, 20)
    return replace(
        shot(now_s),
        queued=queued,
        throughput_per_s=throughput,
        inside=stats,
        latency=stats,
        window_start_s=now_s - window_s,
    )


def test_measuring_starts_anew_when_the_last_late_item_has_passed() -> None:
    backlog = Backlog()
    backlog.inherit()
    assert not backlog.reset_due(LATENCY, late(11, queued=10), MISSED)
    assert not backlog.reset_due(LATENCY, late(12, queued=0), MISSED)
    assert backlog.reset_due(LATENCY, late(12.5, queued=0), MISSED)


def test_it_starts_anew_again_while_more_comes_out_than_in() -> None:
    backlog = Backlog()
    backlog.inherit()
    backlog.reset_due(LATENCY, late(12, queued=0), MISSED)
    assert backlog.reset_due(LATENCY, late(14, queued=0, throughput=13.0, window_s=1), MISSED)
    assert not backlog.reset_due(LATENCY, late(16, queued=0, throughput=10.0, window_s=1), MISSED)
    assert not backlog.reset_due(LATENCY, late(18, queued=0, throughput=13.0, window_s=1), MISSED)


def test_a_throughput_is_not_spoilt_by_late_items() -> None:
    backlog = Backlog()
    backlog.inherit()
    backlog.reset_due(RATE, late(12, queued=0), MISSED)
    assert not backlog.reset_due(RATE, late(12.5, queued=0), MISSED)


def test_a_miss_is_no_answer_while_late_items_are_on_their_way() -> None:
    backlog = Backlog()
    backlog.inherit()
    excused = backlog.excused(LATENCY, late(11, queued=0), MISSED)
    assert (excused.meets, excused.status) == (None, SloStatus.VIOLATED)
    assert excused.reason == "bad, but items that waited before are still on their way"
    assert backlog.excused(LATENCY, late(11, queued=20), MISSED) is MISSED
    assert backlog.excused(RATE, late(11, queued=0), MISSED) is MISSED
