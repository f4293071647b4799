"""The capacity model against exact queueing results, a simulation of shared cores, and plain arithmetic."""

import heapq
import math
import random
from collections import deque
from dataclasses import replace

import numpy as np
import pytest

from compositions.capacity.costs import Conditions, StageCost, reorder_wait
from compositions.capacity.predict import predict
from compositions.model import Composition, Stage
from compositions.notation import parse

FERRET = [Stage(name) for name in ("segment", "extract", "vectorize", "rank")]
COSTS = {
    "segment": StageCost(0.045, 0.045, 0.2),
    "extract": StageCost(0.008, 0.008, 0.2),
    "vectorize": StageCost(0.001, 0.001, 0.2),
    "rank": StageCost(0.160, 0.160, 0.4),
}


def ferret(notation: str) -> Composition:
    return parse(notation, FERRET, name=notation)


def chain(*groups: tuple[int, float, float]) -> tuple[Composition, dict[str, StageCost]]:
    """A composition of one stage a group, each given as replicas, service time in seconds (all CPU) and cv."""
    stages = [Stage(f"s{number}") for number in range(len(groups))]
    notation = "-".join(f"Par*{replicas}" if replicas > 1 else "Seq" for replicas, _, _ in groups)
    return parse(notation, stages), {f"s{i}": StageCost(mean, mean, cv) for i, (_, mean, cv) in enumerate(groups)}


# --- throughput -----------------------------------------------------------------------------------------------------


def test_the_slowest_group_limits_when_there_are_cores_enough() -> None:
    prediction = predict(ferret("Seq(f1,f2)-Par-Par*3"), COSTS, Conditions(cores=16, hop_s=0.0, input_rate_per_s=None))
    assert prediction.throughput_per_s == pytest.approx(3 / 0.160)
    assert (prediction.bottleneck_group, prediction.limited_by, prediction.workers) == (2, "group", 6)


def test_the_cores_limit_what_replicas_promise() -> None:
    prediction = predict(ferret("Par-Par-Par-Par*8"), COSTS, Conditions(cores=2, hop_s=0.0, input_rate_per_s=None))
    assert (prediction.throughput_per_s, prediction.limited_by) == (pytest.approx(2 / 0.214), "cores")


def test_a_hop_may_cost_less_cpu_than_time() -> None:
    prediction = predict(ferret("Seq-Seq-Seq-Seq"), COSTS, Conditions(1, 0.010, None, hop_cpu_s=0.001))
    assert prediction.throughput_per_s == pytest.approx(1 / (0.214 + 4 * 0.001))
    assert prediction.base_latency_s == pytest.approx(0.214 + 4 * 0.010)


def test_stages_that_wait_scale_past_the_cores() -> None:
    waiting = {stage.name: StageCost(0.1, 0.0) for stage in FERRET}
    prediction = predict(ferret("Par*50(f1,f2,f3,f4)"), waiting, Conditions(cores=1, hop_s=0.0, input_rate_per_s=100))
    assert prediction.throughput_per_s == pytest.approx(125)
    assert prediction.latency_s == pytest.approx(0.4, rel=0.01)
    assert prediction.cpu_cores == 0.0


def test_work_that_costs_nothing_has_no_limit() -> None:
    free = {stage.name: StageCost(0.0, 0.0) for stage in FERRET}
    prediction = predict(ferret("Seq-Seq-Seq-Seq"), free, Conditions(cores=1, hop_s=0.0, input_rate_per_s=10))
    assert prediction.throughput_per_s == math.inf
    assert (prediction.base_latency_s, prediction.utilization, prediction.overloaded) == (0.0, 0.0, False)
    assert prediction.latency_s == 0.0


# --- what depends on the input rate ---------------------------------------------------------------------------------


def test_at_or_above_capacity_the_latency_is_infinite() -> None:
    composition = ferret("Seq-Seq-Seq-Seq")
    for rate in (1 / 0.160, 100.0):
        prediction = predict(composition, COSTS, Conditions(cores=8, hop_s=0.0, input_rate_per_s=rate))
        assert prediction.overloaded
        assert [prediction.statistic(name) for name in ("mean", "p50", "p95", "p99")] == [math.inf] * 4
        assert prediction.cpu_cores == pytest.approx(0.214 / 0.160)
        assert prediction.base_latency_s == pytest.approx(0.214)


def test_an_unknown_rate_leaves_the_latency_unknown_and_a_stopped_source_the_bare_one() -> None:
    unknown, stopped = (predict(ferret("Seq-Par-Seq-Par"), COSTS, Conditions(2, 0.001, rate)) for rate in (None, 0.0))
    assert [unknown.latency_s, unknown.p95_s, unknown.utilization, unknown.cpu_cores] == [None] * 4
    assert not unknown.overloaded
    assert unknown.base_latency_s == pytest.approx(0.218)
    assert (stopped.latency_s, stopped.utilization) == (pytest.approx(0.218), 0.0)


# --- against exact results ------------------------------------------------------------------------------------------


def erlang_wait(rate: float, service: float, servers: int) -> float:
    """Mean wait in M/M/c (Erlang C), exact."""
    load = rate * service
    head = sum(load**k / math.factorial(k) for k in range(servers))
    tail = load**servers / math.factorial(servers) * servers / (servers - load)
    return tail / (head + tail) * service / (servers - load)


@pytest.mark.parametrize("servers", [1, 2, 4, 8])
@pytest.mark.parametrize("utilization", [0.5, 0.8, 0.95])
def test_independent_users_and_exponential_service_wait_as_erlang_says(servers: int, utilization: float) -> None:
    rate = utilization * servers / 0.1
    composition, costs = chain((servers, 0.1, 1.0))
    prediction = predict(composition, costs, Conditions(cores=64, hop_s=0.0, input_rate_per_s=rate, arrival_cv=1.0))
    in_order = float(reorder_wait(np.array([0.1]), 1 / rate)[0]) if servers > 1 else 0.0
    wait = prediction.latency_s - 0.1 - in_order
    # Sakasegawa's form is exact for one server and within a few hundredths of the service time for several.
    assert wait == pytest.approx(erlang_wait(rate, 0.1, servers), abs=0.004)


def test_constant_times_at_a_steady_pace_do_not_wait() -> None:
    composition, costs = chain((1, 0.02, 0.0), (3, 0.06, 0.0), (1, 0.01, 0.0))
    prediction = predict(composition, costs, Conditions(cores=8, hop_s=0.0, input_rate_per_s=49, arrival_cv=0.0))
    assert prediction.latency_s == pytest.approx(0.09)


def test_the_wait_for_earlier_items_is_the_lead_of_the_latest_of_them() -> None:
    generator = np.random.default_rng(7)
    finish = generator.normal(size=400_000) + 0.5 * np.arange(400_000)
    held = float(np.mean(np.maximum.accumulate(finish) - finish))
    assert float(reorder_wait(np.array([1.0]), 0.5)[0]) == pytest.approx(held, abs=0.01)


# --- bundles --------------------------------------------------------------------------------------------------------


def test_a_bundle_shares_a_hop_and_its_items_wait_for_each_other() -> None:
    composition, costs = chain((1, 0.001, 0.0), (2, 0.003, 0.0))
    conditions = Conditions(cores=8, hop_s=0.01, input_rate_per_s=500, arrival_cv=0.0, bundle_items=10)
    prediction = predict(composition, costs, conditions)
    assert prediction.throughput_per_s == pytest.approx(10 * 2 / (10 * 0.003 + 0.01))  # 500, from the second group
    assert prediction.overloaded
    prediction = predict(composition, costs, replace(conditions, input_rate_per_s=400))
    assert prediction.base_latency_s == pytest.approx(10 * 0.004 + 2 * 0.01)
    fills_s = 9 / (2 * 400)  # the first waits for nine others, the last for none
    assert prediction.latency_s == pytest.approx(prediction.base_latency_s + fills_s)
    assert prediction.cpu_cores == pytest.approx(400 * (0.004 + 2 * 0.01 / 10))
    spread_s = math.sqrt(99 / 12) / 400  # of ten evenly spaced items
    assert prediction.latency_s < prediction.p95_s < prediction.latency_s + 2 * spread_s


def test_items_of_a_bundle_vary_independently_so_it_waits_less_than_one_item_as_long() -> None:
    one, costs = chain((1, 0.01, 1.0))
    ten = Conditions(cores=8, hop_s=0.0, input_rate_per_s=80, arrival_cv=0.0, bundle_items=10)
    bundles = predict(one, costs, ten)
    alike = predict(one, {"s0": StageCost(0.1, 0.1, 1.0)}, replace(ten, input_rate_per_s=8, bundle_items=1))
    assert bundles.latency_s - 9 / 160 < 0.7 * alike.latency_s


@pytest.mark.parametrize(("items", "rounds"), [(1, 1.0), (4, 1.0), (64, 4.0)])
def test_calls_that_wait_overlap_within_a_bundle_too(items: int, rounds: float) -> None:
    composition, _ = chain((1, 0.03, 0.0))
    costs = {"s0": StageCost(0.03, 0.0001, at_once=16)}
    conditions = Conditions(cores=2, hop_s=0.0, input_rate_per_s=None, bundle_items=items)
    prediction = predict(composition, costs, conditions)
    assert prediction.throughput_per_s == pytest.approx(16 / 0.03)
    assert prediction.base_latency_s == pytest.approx(rounds * 0.03)


def test_bundles_that_may_grow_carry_what_the_largest_do_and_are_as_large_as_the_rate_needs() -> None:
    composition, costs = chain((1, 0.001, 0.0))
    conditions = Conditions(cores=8, hop_s=0.01, input_rate_per_s=200, arrival_cv=0.0, bundle_limit=100)
    prediction = predict(composition, costs, conditions)  # one by one 91 items/s
    assert prediction.throughput_per_s == pytest.approx(100 / (100 * 0.001 + 0.01))
    assert prediction.utilization == pytest.approx(200 / prediction.throughput_per_s)
    size = 2.5  # 2.5 / 200 s = 12.5 ms, and 2.5 * 1 ms + 10 ms are as much
    assert prediction.latency_s == pytest.approx((1.5 + 1 + 1) * size / 200)
    slow = replace(conditions, input_rate_per_s=50)
    one_by_one = predict(composition, costs, replace(slow, bundle_limit=1))
    assert predict(composition, costs, slow).latency_s == one_by_one.latency_s


# --- against a simulation of workers that share cores ---------------------------------------------------------------


def simulate(groups: list[tuple[int, float, float]], rate: float, cores: int, items: int, seed: int) -> list[float]:
    """Latencies of a paced stream, delivered in order; busy workers share the cores evenly."""
    draw = random.Random(seed)
    waiting: list[deque[int]] = [deque() for _ in groups]
    idle = [replicas for replicas, _, _ in groups]
    busy: list[tuple[float, int, int]] = []  # (work of everyone so far at which it ends, group, item)
    now = work = 0.0
    admitted = 0
    done: dict[int, float] = {}
    while len(done) < items:
        speed = min(1.0, cores / len(busy)) if busy else 1.0
        next_end = now + (busy[0][0] - work) / speed if busy else math.inf
        next_in = admitted / rate if admitted < items else math.inf
        later = min(next_end, next_in)
        work, now = work + (later - now) * speed, later
        if next_in <= next_end:
            waiting[0].append(admitted)
            admitted += 1
        else:
            _, group, item = heapq.heappop(busy)
            idle[group] += 1
            if group + 1 < len(groups):
                waiting[group + 1].append(item)
            else:
                done[item] = now
        for group, (_, mean, cv) in enumerate(groups):
            while waiting[group] and idle[group]:
                idle[group] -= 1
                spread = math.sqrt(math.log1p(cv * cv))
                service = draw.lognormvariate(math.log(mean) - spread**2 / 2, spread)
                heapq.heappush(busy, (work + service, group, waiting[group].popleft()))
    delivered = np.maximum.accumulate([done[item] for item in range(items)])
    return sorted((delivered - np.arange(items) / rate)[items // 10 :])


@pytest.mark.parametrize(
    ("groups", "cores", "utilization"),
    [
        ([(1, 0.03, 0.4)], 2, 0.8),
        ([(1, 0.02, 0.4), (1, 0.03, 0.4), (1, 0.01, 0.2)], 8, 0.7),
        ([(1, 0.053, 0.2), (2, 0.001, 0.2), (2, 0.16, 0.4)], 8, 0.8),
        ([(1, 0.053, 0.2), (2, 0.001, 0.2), (2, 0.16, 0.4)], 2, 0.6),
        ([(2, 0.008, 0.1), (2, 0.008, 0.1), (2, 0.008, 0.1)], 2, 0.8),
        ([(4, 0.05, 0.8)], 2, 0.7),
        ([(8, 0.1, 0.4), (2, 0.02, 0.4)], 12, 0.9),
        ([(3, 0.03, 0.5), (3, 0.02, 0.8)], 1, 0.6),
    ],
)
def test_latency_is_near_the_simulated(groups: list[tuple[int, float, float]], cores: int, utilization: float) -> None:
    composition, costs = chain(*groups)
    unloaded = Conditions(cores=cores, hop_s=0, input_rate_per_s=None)
    rate = utilization * predict(composition, costs, unloaded).throughput_per_s
    prediction = predict(composition, costs, Conditions(cores=cores, hop_s=0.0, input_rate_per_s=rate, arrival_cv=0.0))
    latencies = simulate(groups, rate, cores, items=6000, seed=1)
    assert prediction.latency_s == pytest.approx(float(np.mean(latencies)), rel=0.15)
    assert prediction.p50_s == pytest.approx(float(np.quantile(latencies, 0.5)), rel=0.2)
    assert prediction.p95_s == pytest.approx(float(np.quantile(latencies, 0.95)), rel=0.35)


WAITS = {"ask": StageCost(0.030, 0.0002, 0.0, at_once=16), "use": StageCost(0.002, 0.002)}
TWO = (Stage("ask", concurrency=16), Stage("use"))


@pytest.mark.parametrize(
    ("notation", "capacity_per_s"),
    [
        ("Seq-Seq", 1 / 0.002),  # 16 calls in 30 ms are 533 a second
        ("Seq(ask,use)", 1 / 0.0022),  # what keeps the worker, not what it waits for
        ("Seq-Par*2", 16 / 0.030),
        ("Par*2(ask)-Par*2(use)", 2 / 0.002),
    ],
)
def test_waiting_takes_no_core_and_no_worker(notation: str, capacity_per_s: float) -> None:
    found = predict(parse(notation, TWO), WAITS, Conditions(cores=8, hop_s=0.0, input_rate_per_s=300.0))
    assert found.throughput_per_s == pytest.approx(capacity_per_s, rel=1e-6)
    assert 0.032 <= found.latency_s < 0.036


# --- a GPU that workers share ----------------------------------------------------------------------------------------

ON_GPU = {"ask": StageCost(0.002, 0.002), "use": StageCost(0.010, 0.002, gpu_s=0.004, gpus=0.25)}
FREE = Conditions(cores=64, hop_s=0.0, input_rate_per_s=None)


@pytest.mark.parametrize(
    ("notation", "per_s", "limited_by"),
    [
        ("Seq-Seq", 100, "group"),  # 10 ms of a worker
        ("Seq-Par*2", 200, "group"),
        ("Seq-Par*3", 250, "gpus"),  # 4 ms of the GPU
        ("Seq-Par*4", 250, "gpus"),
        ("Par*2-Par*5", 500, "gpus"),  # the fifth quarter is of another GPU; 500 = 5 workers of 10 ms as well
        ("Par*4(f1,f2)", 250, "gpus"),
    ],
)
def test_workers_that_share_a_gpu_are_no_faster_than_it(notation: str, per_s: float, limited_by: str) -> None:
    found = predict(parse(notation, TWO), ON_GPU, FREE)
    assert found.throughput_per_s == pytest.approx(per_s)
    assert found.limited_by == limited_by or per_s == 500


def test_stages_of_two_groups_share_a_gpu() -> None:
    both = dict.fromkeys(("ask", "use"), StageCost(0.006, 0.0, gpu_s=0.005, gpus=0.25))
    for notation in ("Par*2-Par*2", "Par*2(f1,f2)"):
        assert predict(parse(notation, TWO), both, FREE).throughput_per_s == pytest.approx(100)


def test_a_worker_with_gpus_of_its_own_has_no_need_to_wait() -> None:
    own = {"ask": StageCost(0.002, 0.002), "use": StageCost(0.010, 0.002, gpu_s=0.010, gpus=1)}
    assert predict(parse("Par*2-Par*4", TWO), own, FREE).throughput_per_s == pytest.approx(400)


def test_a_gpu_that_is_nearly_used_up_keeps_items_waiting_and_one_that_is_used_up_has_no_latency() -> None:
    at = {rate: Conditions(64, 0.0, rate, arrival_cv=1.0) for rate in (50.0, 240.0, 260.0)}
    slow, shared, beyond = (predict(parse("Par*2-Par*4", TWO), ON_GPU, each).latency_s for each in at.values())
    independent = {**ON_GPU, "use": StageCost(0.010, 0.002)}
    alone = predict(parse("Par*2-Par*4", TWO), independent, at[240.0]).latency_s
    assert slow == pytest.approx(0.012, rel=0.05)
    assert shared > alone + 0.004
    assert beyond == math.inf
