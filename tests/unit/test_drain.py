"""Drain estimate: the arithmetic of Jacobson and Karels, Karn's rule, and samples against a simulated pipeline."""

import heapq
import random
from math import exp, log, sqrt

import pytest

from compositions.capacity.costs import StageCost
from compositions.dynamic import Dyn
from compositions.model import Composition, Group, Pattern
from profiler.drain import DrainEstimate, DrainEstimator
from profiler.drain_samples import (
    Conditions,
    InFlight,
    PaperSample,
    Pending,
    SizeLaws,
    SizeTrend,
    left_s,
    paper_sample,
    schedule_sample,
)

Pendings = dict[str, list[Pending]]


def composition(*groups: tuple[str, int]) -> Composition:
    """``("a,b", 2)`` is a group of stages a and b with two replicas."""
    return Composition("c", tuple(Group(tuple(names.split(",")), Pattern.PAR, n) for names, n in groups))


def costs(cpu_share: float = 0.0, cv: float = 0.0, **service_s: float) -> dict[str, StageCost]:
    return {name: StageCost(s, s * cpu_share, cv) for name, s in service_s.items()}


# --- the estimate ----------------------------------------------------------------------------------------------------


def test_first_sample_as_in_rfc_6298() -> None:
    first = DrainEstimate.first(0.8)
    assert (first.srtt_s, first.rttvar_s, first.bound_s) == (0.8, 0.4, pytest.approx(2.4))


def test_updates_by_hand() -> None:
    """0.8, then 1.6 and 0.0: errors +0.8 and -0.9."""
    second = DrainEstimate.first(0.8).updated(1.6)
    assert (second.srtt_s, second.rttvar_s) == (pytest.approx(0.9), pytest.approx(0.5))
    third = second.updated(0.0)
    assert (third.srtt_s, third.rttvar_s) == (pytest.approx(0.7875), pytest.approx(0.6))


def drained(actual_s: float | None, sample_s: float = 0.240, estimator: DrainEstimator | None = None) -> DrainEstimator:
    """An estimator after a sample and a drain."""
    estimator = estimator or DrainEstimator()
    estimator.sample(sample_s)
    estimator.begin()
    estimator.end(actual_s)
    return estimator


def test_an_undisturbed_drain_is_a_sample_and_is_logged() -> None:
    estimator = drained(0.320)
    status = estimator.status()
    assert (status.srtt_s, status.rttvar_s) == (pytest.approx(0.250), pytest.approx(0.110))
    assert (status.last_actual_s, status.last_error_ratio, status.count) == (0.320, pytest.approx(0.25), 1)
    [record] = estimator.log
    assert (record.mean_s, record.bound_s) == (0.240, pytest.approx(0.720))


def test_neither_nothing_nor_a_disturbed_drain_nor_what_is_seen_in_one_is_a_sample() -> None:
    fresh, disturbed = DrainEstimator(), drained(None)
    fresh.sample(None)
    assert (fresh.mean_s, fresh.estimate_s, fresh.begin(), fresh.status().count) == (None, None, None, 0)
    assert (disturbed.mean_s, disturbed.log, disturbed.draining) == (0.240, (), False)
    disturbed.begin()
    disturbed.sample(0.001)
    assert disturbed.mean_s == 0.240


@pytest.mark.parametrize(("actual_s", "logged"), [(None, []), (0.400, [0.300])])
def test_overdue_doubles_for_this_drain_alone_and_not_in_the_log(actual_s: float | None, logged: list[float]) -> None:
    estimator = DrainEstimator()
    estimator.sample(0.100)
    assert estimator.begin() == DrainEstimate(0.100, 0.050)
    assert (estimator.overdue(), estimator.overdue()) == (pytest.approx(0.600), pytest.approx(1.200))
    estimator.end(actual_s)
    assert [record.bound_s for record in estimator.log] == pytest.approx(logged)
    assert actual_s or estimator.estimate_s == pytest.approx(0.300)


def test_another_composition_starts_anew_but_keeps_the_log() -> None:
    estimator = drained(0.2, sample_s=0.2)
    estimator.restart()
    estimator.sample(1.0)
    assert (estimator.mean_s, estimator.status().count) == (1.0, 1)


def test_a_lasting_bias_is_learned_within_a_factor_of_two() -> None:
    learning, limited = DrainEstimator(), DrainEstimator()
    for _ in range(20):
        learning.restart()
        drained(0.16, 0.1 * learning.calibration, learning)
        limited.restart()
        drained(50.0, 0.1, limited)
    assert learning.calibration == pytest.approx(1.6, rel=0.05)
    assert learning.status().last_error_ratio == pytest.approx(0.0, abs=0.05)
    assert limited.calibration == 2.0


# --- samples ---------------------------------------------------------------------------------------------------------


def test_the_published_sample_takes_an_item_through_all_stages() -> None:
    """Two items of 24 ms in one group: 48 ms. In three groups, a worker each: 2 · 24 / 3."""
    known = costs(f1=0.008, f2=0.008, f3=0.008)
    now = Conditions(known, cores=8, hop_s=0.001, laws=SizeLaws(), calibration=1.7)
    for groups, expected_s in (([("f1,f2,f3", 1)], 0.048), ([("f1", 1), ("f2", 1), ("f3", 1)], 0.016)):
        left = InFlight(composition(*groups), 2, {})
        assert PaperSample().sample(left, now) == pytest.approx(expected_s)
        assert PaperSample().at_switch(left, now) is None
    del known["f2"]
    assert PaperSample().sample(left, now) is None, "one of its stages was never measured"


def halfway(shape: Composition, stage_costs: dict[str, StageCost], positions: dict[str, int]) -> Pendings:
    """Every replica that has an item is in the middle of it; the other items wait."""
    found: Pendings = {}
    for group in shape.groups:
        for first, stage in enumerate(group.stages):
            half_s = sum(stage_costs[name].service_s for name in group.stages[first:]) / 2
            count = positions.get(stage, 0)
            running = min(count, group.replicas)
            found[stage] = [Pending(half_s)] * running + [Pending()] * (count - running)
    return found


def test_nothing_in_flight_or_an_unknown_stage_gives_no_sample() -> None:
    shape = composition(("a", 1), ("b", 1))
    assert schedule_sample(shape, {}, costs(a=1, b=1), cores=2) is None
    assert schedule_sample(shape, {"a": []}, costs(a=1, b=1), cores=2) is None
    assert schedule_sample(shape, {"a": [Pending()]}, costs(a=1), cores=2) is None


@pytest.mark.parametrize(
    ("positions", "expected_s"),
    [
        ({"c": 1}, 0.5),
        ({"b": 1}, 0.5 + 1),
        ({"a": 1}, 0.5 + 1 + 1),
        ({"c": 3}, 0.5 + 2),
        ({"a": 1, "c": 1}, 2.5),
        ({"a": 3}, 0.5 + 2 + 1 + 1),
    ],
)
def test_three_sequential_stages_of_a_second(positions: dict[str, int], expected_s: float) -> None:
    shape, known = composition(("a", 1), ("b", 1), ("c", 1)), costs(a=1, b=1, c=1)
    assert schedule_sample(shape, halfway(shape, known, positions), known, cores=8) == pytest.approx(expected_s)


@pytest.mark.parametrize(
    ("groups", "pending", "hop_s", "expected_s"),
    [
        pytest.param([("a", 1)], {"a": [Pending(0.0)]}, 0.0, 1.0, id="just begun"),
        pytest.param([("a", 1)], {"a": [Pending(3.0)]}, 0.0, 0.0, id="overdue"),
        pytest.param([("a,b", 1)], {"b": [Pending(0.5)]}, 0.0, 0.5, id="in the middle of a merged group"),
        pytest.param([("a", 1), ("b", 1)], {"a": [Pending(0.5)]}, 0.1, 1.7, id="every task pays its hop"),
    ],
)
def test_one_item_needs_what_is_left_of_it(
    groups: list[tuple[str, int]], pending: Pendings, hop_s: float, expected_s: float
) -> None:
    found = schedule_sample(composition(*groups), pending, costs(a=1.0, b=1.0), cores=8, hop_s=hop_s)
    assert found == pytest.approx(expected_s)


def test_workers_of_a_group_that_is_empty_do_not_help() -> None:
    """The slip of the published sample on a pipeline: it divides by workers that have nothing left to do."""
    shape, known = composition(("light", 4), ("heavy", 1)), costs(light=0.01, heavy=1.0)
    ours = schedule_sample(shape, halfway(shape, known, {"heavy": 4}), known, cores=8)
    assert ours == pytest.approx(3.5)
    assert paper_sample(4, 1.0, shape.workers) == pytest.approx(0.8)


def test_few_cores_bound_it_from_below() -> None:
    shape, known = composition(("a", 4)), costs(cpu_share=1.0, a=1.0)
    pending = halfway(shape, known, {"a": 8})
    on_cores = [schedule_sample(shape, pending, known, cores=cores) for cores in (1, 2, 64)]
    assert on_cores == [pytest.approx(6.0), pytest.approx(3.0), pytest.approx(1.5)]


def test_workers_that_go_from_group_to_group_share_all_that_is_left() -> None:
    """Two workers, four items through two stages of a second each, of which any may be run by both."""
    groups = composition(("a", 2), ("b", 2)).groups
    known, pending = costs(a=1.0, b=1.0), {"a": [Pending()] * 4}
    bound = schedule_sample(Composition("four", groups), pending, known, cores=8)
    roaming = schedule_sample(Composition("two", groups, dyn=Dyn(2)), pending, known, cores=8)
    assert (bound, roaming) == (pytest.approx(3.0), pytest.approx(4.0))
    assert schedule_sample(
        Composition("two", groups, dyn=Dyn(2)), {"b": [Pending(0.25)]}, known, cores=8, hop_s=0.1
    ) == pytest.approx(0.85), "the last task has one worker"


def test_items_of_known_size_are_told_apart() -> None:
    """Twice the size takes four times as long: after sizes of 100 to 800 at a mean of 1 s."""
    laws, rng = SizeLaws(), random.Random(3)
    for _ in range(200):
        size = round(exp(rng.gauss(5.5, 0.5)))
        laws.add(("a",), size, 1e-5 * size**2)
    shape, known = composition(("a", 1)), costs(a=1.0)
    small, large = (schedule_sample(shape, {"a": [Pending(None, n)]}, known, cores=8, laws=laws) for n in (200, 400))
    assert large == pytest.approx(4 * small, rel=0.02)
    assert schedule_sample(shape, {"a": [Pending(None, 0)]}, known, cores=8, laws=laws) == pytest.approx(1.0)


def test_sizes_that_do_not_tell_the_time_are_left_alone() -> None:
    trend, constant, rng = SizeTrend(), SizeTrend(), random.Random(3)
    for _ in range(200):
        trend.add(rng.randint(100, 1000), rng.uniform(0.5, 1.5))
        constant.add(360_000, rng.uniform(0.5, 1.5))
    assert (trend.law(), constant.law()) == (None, None)


def test_the_mean_factor_is_one() -> None:
    trend, rng = SizeTrend(), random.Random(7)
    sizes = [round(exp(rng.gauss(7.0, 0.3))) for _ in range(64)] * 8
    for size in sizes:
        trend.add(size, size**2.5 * 1e-9 * exp(rng.gauss(0.0, 0.1)))
    law = trend.law()
    assert sum(map(law.factor, sizes)) / len(sizes) == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize("cv", [0.2, 0.8, 1.5])
def test_what_is_left_of_lognormal_tasks_that_outlived_their_age(cv: float) -> None:
    sigma = sqrt(log(1 + cv * cv))
    rng = random.Random(2)
    times_s = [rng.lognormvariate(-sigma * sigma / 2, sigma) for _ in range(100_000)]
    for age_s in (0.1, 0.5, 1.0, 1.5):
        left = [time_s - age_s for time_s in times_s if time_s > age_s]
        assert left_s(1.0, cv, age_s) == pytest.approx(sum(left) / len(left), rel=0.05)


@pytest.mark.parametrize("cv", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    ("groups", "positions"),
    [
        ((("a", 1), ("b", 1), ("c", 1)), {"a": 2, "b": 2, "c": 1}),
        ((("a,b", 1), ("c", 3)), {"a": 1, "c": 4}),
        ((("a", 2), ("b", 2), ("c", 2)), {"a": 4, "b": 3, "c": 3}),
        ((("a", 1), ("b,c", 4)), {"a": 2, "b": 6}),
    ],
)
def test_close_to_simulated_drains(cv: float, groups: tuple[tuple[str, int], ...], positions: dict[str, int]) -> None:
    shape, stage_costs = composition(*groups), costs(cv=cv, a=0.2, b=0.4, c=1.0)
    rng = random.Random(11)
    drains = [simulated_drain(shape, positions, stage_costs, rng) for _ in range(400)]
    expected_s = [schedule_sample(shape, pending, stage_costs, cores=64) or 0.0 for pending, _ in drains]
    assert sum(expected_s) == pytest.approx(sum(actual_s for _, actual_s in drains), rel=0.25)


def simulated_drain(
    shape: Composition, positions: dict[str, int], stage_costs: dict[str, StageCost], rng: random.Random
) -> tuple[Pendings, float]:
    """What is seen when it begins, and one random drain: events in time order, gamma service times, workers found in
    the middle of theirs."""
    queues = [positions.get(group.stages[0], 0) for group in shape.groups]
    idle = [group.replicas for group in shape.groups]
    seen: Pendings = {group.stages[0]: [] for group in shape.groups}
    events: list[tuple[float, int]] = []
    now_s = 0.0

    def start(group: int, *, midway: bool = False) -> None:
        while queues[group] and idle[group]:
            queues[group] -= 1
            idle[group] -= 1
            names = shape.groups[group].stages
            age_s, left = service_s(names, stage_costs, rng, midway)
            if midway:
                seen[names[0]].append(Pending(age_s))
            heapq.heappush(events, (now_s + left, group))

    for group in range(len(queues)):
        start(group, midway=True)
        seen[shape.groups[group].stages[0]] += [Pending()] * queues[group]
    while events:
        now_s, group = heapq.heappop(events)
        idle[group] += 1
        start(group)
        if group + 1 < len(queues):
            queues[group + 1] += 1
            start(group + 1)
    return seen, now_s


def service_s(
    names: tuple[str, ...], stage_costs: dict[str, StageCost], rng: random.Random, midway: bool
) -> tuple[float, float]:
    """Age and rest of a service time; ``midway``: a random moment fell into it (into longer ones more often)."""

    def drawn() -> float:
        picked = [stage_costs[name] for name in names]
        return sum(rng.gammavariate(c.cv**-2, c.service_s * c.cv**2) if c.cv else c.service_s for c in picked)

    if not midway:
        return 0.0, drawn()
    draws = [drawn() for _ in range(20)]
    whole_s, share = rng.choices(draws, weights=draws)[0], rng.random()
    return whole_s * share, whole_s * (1 - share)


def test_the_bound_covers_drains_that_scatter_although_samples_between_them_do_not() -> None:
    """Without the floor rttvar falls to nothing between drains, and half of these drains outlive their bound."""
    rng = random.Random(5)
    estimator = DrainEstimator()
    for _ in range(60):
        estimator.restart()
        for _ in range(39):
            estimator.sample(0.5)
        drained(rng.uniform(0.3, 0.7), 0.5, estimator)
    later = estimator.log[10:]
    assert sum(record.actual_s <= record.bound_s for record in later) >= 0.95 * len(later)
    assert max(record.bound_s for record in later) < 1.5
