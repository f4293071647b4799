"""The model strategy: certain answers without trials, doubt tried, errors remembered."""

from dataclasses import replace

import pytest

from compositions.model import Composition, Group, Pattern, Stage, all_sequential
from control.assess import Assessment
from control.decisions import CandidateStatus, Trigger
from control.objectives import objective_of
from control.settings import Settings
from control.situation import Situation
from control.strategies.base import Settle, Stay, Trial, Try
from control.strategies.model import Model
from profiler.slo import Slo, SloStatus
from profiler.snapshot import InputNow, LatencyStats, RateOutlook, RateWindow, Snapshot, StageProfile
from runtime.dispatch.events import SwitchStyle

STAGES = (Stage("a"), Stage("b"))
ONE = replace(all_sequential(STAGES), name="one")
MERGED = Composition("merged", (Group(("a", "b")),))
RATE = Slo("throughput", "input_rate")


def wide(replicas: int) -> Composition:
    return Composition(f"wide{replicas}", (Group(("a",)), Group(("b",), Pattern.PAR, replicas)))


CHOICES = (ONE, MERGED, wide(2), wide(3), wide(4))
MISSED = Assessment(SloStatus.VIOLATED, False, "too slow", 10.0, 3.0, saturated=True)
MET = Assessment(SloStatus.MET, True, "fine", 15.0, 0.12)


def situation(
    rate: float,
    active: Composition = ONE,
    seen: Assessment = MISSED,
    trigger: Trigger = Trigger.VIOLATION,
    slo: Slo = RATE,
    **more: object,
) -> Situation:
    """Stage a takes 10 ms, b 100 ms: ``wideN`` can do 10 N items/s."""
    profiles = (StageProfile("a", 0.01, 0.01, 0.1, 0.01, 0.01, 500), StageProfile("b", 0.1, 0.1, 0.1, 0.1, 0.1, 500))
    latency = LatencyStats(3, 3, 3, 3, 100)
    snapshot = Snapshot(
        100.0, active.name, False, 0.0, 90.0, rate, seen.throughput_per_s, 100, latency, latency, 32, 0.0, 6, profiles,
        16, 6, 3e-4,
    )  # fmt: skip
    snapshot = replace(snapshot, **more)  # type: ignore[arg-type]
    return Situation(trigger, snapshot, objective_of(slo), seen, active, CHOICES, Settings())


def model() -> Model:
    strategy = Model()
    strategy.prepare(CHOICES)
    return strategy


def trial(composition: Composition, seen: Assessment) -> Trial:
    return Trial(composition, seen, 3.0, "time up")


def test_what_is_certain_is_chosen_without_a_trial() -> None:
    step = model().propose(situation(rate=30), ())
    assert isinstance(step, Settle)
    assert step.composition == wide(3)
    fates = {c.name: (c.status, c.reason) for c in step.candidates}
    assert fates["wide2"] == (CandidateStatus.REJECTED, "misses the SLO: predicted up to 19.9 items/s ± 5 %")
    assert fates["wide4"][0] is CandidateStatus.REJECTED
    assert "5 workers are not fewer than the 4 of wide3" in fates["wide4"][1]


def test_no_more_is_taken_than_the_cores_can_feed_that_others_leave() -> None:
    rising = situation(40, trigger=Trigger.INPUT_RATE, input=InputNow(outlook=RateOutlook(40, 40, 40, True, "a line")))
    taken = replace(rising, snapshot=replace(rising.snapshot, cores_left=3))
    all_cores, left = (model().propose(each, ()) for each in (rising, taken))
    assert isinstance(all_cores, Settle)
    assert isinstance(left, Settle)
    assert (all_cores.composition, left.composition) == (wide(4), wide(3)), "three cores do not feed the fifth worker"
    assert "foreseen with about 3 of 16 cores, for other programs take the rest; wide3 comes closest" in left.reason
    assert "cores" not in all_cores.reason


def test_what_is_in_doubt_is_tried_and_kept_when_it_does() -> None:
    strategy, doubtful = model(), situation(rate=24.4)
    step = strategy.propose(doubtful, ())
    assert isinstance(step, Try)
    assert step.composition == wide(2)
    kept = strategy.propose(replace(doubtful, active=wide(2), assessment=MET), (trial(wide(2), MET),))
    assert isinstance(kept, Settle)
    assert kept.composition == wide(2)


def test_when_the_trial_fails_the_certain_one_is_taken() -> None:
    strategy, doubtful = model(), situation(rate=24.4)
    at = replace(doubtful, active=wide(2), assessment=replace(MISSED, throughput_per_s=19.0))
    strategy.learn(at)
    step = strategy.propose(at, (trial(wide(2), at.assessment),))
    assert isinstance(step, Settle)
    assert step.composition == wide(3)


def test_what_missed_at_this_need_is_not_chosen_again_though_predicted_to_do() -> None:
    strategy = model()
    at = situation(rate=30, active=wide(3), seen=replace(MISSED, throughput_per_s=23.0))
    strategy.learn(at)
    step = strategy.propose(at, ())
    assert isinstance(step, Settle)
    assert step.composition == wide(4)


def test_a_correction_is_bounded_and_fades() -> None:
    strategy = model()
    at = situation(rate=30, active=wide(3), seen=replace(MISSED, throughput_per_s=1.0))
    strategy.learn(at)
    hours_later = replace(at, snapshot=replace(at.snapshot, now_s=at.now_s + 4 * 3600))
    now, later = (_predicted(strategy, s, "wide3") for s in (at, hours_later))
    assert now == pytest.approx(29.9 / 2, rel=0.01)
    assert later == pytest.approx(29.9, rel=0.01)


def _predicted(strategy: Model, at: Situation, name: str) -> float:
    step = strategy.propose(replace(at, active=ONE), ())
    assert isinstance(step, Settle | Try)
    (rate,) = [c.predicted_throughput_per_s for c in step.candidates if c.name == name]
    assert rate is not None
    return rate


def test_nothing_that_can_meet_it_is_called_infeasible_with_the_best() -> None:
    step = model().propose(situation(rate=100), ())
    assert isinstance(step, Settle)
    assert (step.composition, step.infeasible) == (wide(4), True)
    assert step.reason.startswith("no known composition can meet the SLO here; wide4 comes closest")


def test_cores_bound_what_workers_can_do() -> None:
    step = model().propose(situation(rate=30, cores=2), ())
    assert isinstance(step, Settle)
    assert step.infeasible
    assert step.composition.workers < wide(4).workers


def test_workers_are_released_when_fewer_will_do() -> None:
    step = model().propose(situation(rate=6, active=wide(4), seen=MET, trigger=Trigger.PROFILE), ())
    assert isinstance(step, Settle)
    assert step.composition == MERGED


def test_nothing_moves_when_nothing_cheaper_will_do() -> None:
    step = model().propose(situation(rate=24, active=wide(3), seen=MET, trigger=Trigger.PROFILE), ())
    assert isinstance(step, Stay)


def test_latency_counts_the_queue_not_only_the_service() -> None:
    slo = Slo("latency", 130.0)
    step = model().propose(situation(rate=15, slo=slo), ())
    assert isinstance(step, Settle)
    assert step.composition == wide(2)
    (merged,) = [c for c in step.candidates if c.name == "merged"]
    assert merged.predicted_latency_s is None
    assert "so the queue grows" in merged.reason


@pytest.mark.parametrize(
    ("throughput", "elapsed_s", "ends"), [(30.0, 1.5, True), (12.5, 1.5, False), (6.0, 1.5, False), (6.0, 2.5, True)]
)
def test_a_trial_ends_when_the_answer_is_clear(throughput: float, elapsed_s: float, ends: bool) -> None:
    meets = throughput >= 12
    seen = Assessment(SloStatus.MET if meets else SloStatus.VIOLATED, meets, "text", throughput, 0.1, not meets)
    assert (model().clear(situation(rate=15, seen=seen), elapsed_s) is not None) is ends


def test_what_cannot_be_switched_to_is_passed_over_with_the_reason() -> None:
    at = replace(situation(rate=30), unavailable={"wide3": "no memory"})
    step = model().propose(at, ())
    assert isinstance(step, Settle)
    assert step.composition == wide(4)
    assert {c.name: c.reason for c in step.candidates}["wide3"] == "no memory"


def test_of_many_candidates_the_nearest_are_listed_and_the_rest_counted() -> None:
    many = (ONE, *(wide(n) for n in range(2, 200)))
    strategy = Model()
    strategy.prepare(many)
    step = strategy.propose(replace(situation(rate=30), compositions=many), ())
    assert isinstance(step, Settle)
    assert len(step.candidates) == 60
    assert "139 further compositions are not listed" in step.reason


def reviewed(rate: float, active: Composition, cv: float = 1.0) -> str | None:
    """Counted arrivals, sixty timings of each stage; where it goes."""
    return reviewed_of(situation(rate, active, MET, Trigger.PROFILE), cv)


def reviewed_of(at: Situation, cv: float = 1.0, outlook: RateOutlook | None = None) -> str | None:
    rate = at.snapshot.input_rate_per_s or 0.0
    windows = (RateWindow(rate, 1.0, counted=True), RateWindow(rate, 1.0, counted=True))
    stages = tuple(replace(stage, cv=cv, samples=60) for stage in at.snapshot.stages)
    snapshot = replace(at.snapshot, stages=stages, queued=0, input=InputNow(windows, outlook=outlook))
    strategy = Model()
    strategy.prepare(at.compositions)
    step = strategy.propose(replace(at, snapshot=snapshot), ())
    return step.composition.name if isinstance(step, Settle) else None


def test_a_rough_load_is_reviewed_without_trials_and_a_doubt_is_worth_one_worker() -> None:
    assert reviewed(18.0, wide(4)) == "wide2", "two fifths to spare"
    assert reviewed(23.0, wide(4)) == "wide3", "two would do by 8 %, which the timings do not tell"
    assert reviewed(23.0, wide(3)) is None, "the one worker more is there"
    assert reviewed(23.0, wide(4), cv=0.1) == "wide2"
    assert reviewed(35.0, wide(3)) == "wide4", "what is there is likely to do, and one more does for certain"
    assert reviewed(35.0, wide(3), cv=0.1) is None
    assert reviewed(46.0, wide(4)) is None, "likely, and nothing does for certain"


def test_two_workers_more_are_not_worth_a_doubt() -> None:
    at = situation(23.0, wide(4), MET, Trigger.PROFILE)
    without_three = replace(at, compositions=(ONE, MERGED, wide(2), wide(4)))
    assert reviewed_of(without_three) == "wide2"


def test_the_error_of_the_rate_is_a_doubt_like_that_of_the_timings() -> None:
    known = RateOutlook(23.0, 23.0, 23.0, moving=False, by="the present rate")
    guessed = replace(known, error_per_s=3.0)
    at = situation(23.0, wide(4), MET, Trigger.PROFILE)
    assert reviewed_of(at, 0.1, known) == "wide2"
    assert reviewed_of(at, 0.1, guessed) == "wide3"


def test_of_a_rough_load_that_nothing_satisfies_the_least_bad_stays() -> None:
    at = situation(60.0, wide(3), MISSED, Trigger.INPUT_RATE)
    assert reviewed_of(at, 0.1) == "wide4", "surely the better one"
    assert reviewed_of(at, 2.0) == "wide3", "the timings do not tell which is"


def merged(replicas: int) -> Composition:
    return Composition(f"merged{replicas}", (Group(("a", "b"), Pattern.PAR, replicas),))


GROUPED = (ONE, merged(2), merged(3), merged(4), merged(8), merged(9))
"""Of stages of 50 ms each: ``mergedN`` does 10 N items/s, ``one`` 20."""


@pytest.mark.parametrize(
    ("style", "alive", "barred", "goes_to"),
    [
        (SwitchStyle.SEAMLESS, 9, {}, "merged9"),
        (SwitchStyle.SEAMLESS, 8, {}, "merged9"),  # one is started as soon as a drain has ended
        (SwitchStyle.SEAMLESS, 4, {}, "merged4"),
        (SwitchStyle.SEAMLESS, 4, {"merged4": "its switch failed"}, "merged3"),
        (SwitchStyle.SEAMLESS, 2, {}, "merged9"),  # two workers do no more than those of the two groups
        (SwitchStyle.DRAIN, 4, {}, "merged9"),  # where nothing is done in place, the rest would cost another drain
    ],
)
def test_workers_that_are_there_take_up_the_wanted_groups_until_the_others_are_started(
    style: SwitchStyle, alive: int, barred: dict[str, str], goes_to: str
) -> None:
    profiles = tuple(StageProfile(name, 0.05, 0.05, 0.1, 0.05, 0.05, 500) for name in "ab")
    rising = InputNow(outlook=RateOutlook(105.0, 105.0, 105.0, moving=True, by="the trend"))
    seen = situation(105.0, trigger=Trigger.START, stages=profiles, workers_alive=alive, input=rising)
    asked = replace(seen, compositions=GROUPED, settings=Settings(style=style), unavailable=barred)
    strategy = Model()
    strategy.prepare(GROUPED)
    step = strategy.propose(asked, ())
    assert isinstance(step, Settle)
    assert step.composition.name == goes_to
    assert ("until its 9 workers are started" in step.reason) == (goes_to != "merged9")
