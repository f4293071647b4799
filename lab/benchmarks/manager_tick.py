"""Measure the cost of a manager tick with 20 and with 10,000 compositions, and the cost of pricing them.

    python -m lab.benchmarks.manager_tick [--rounds 20] [--json]

The contract: at most 50 ms (p99) with 10,000 compositions, after ten minutes of a waving load with counted arrivals;
pricing 10,000 compositions at one rate, for what-if, takes at most 25 ms. Without a user's list, the strategy composes.
CPU time is measured: a tick never waits, so this excludes other load on the machine.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from math import pi, sin
from time import thread_time

import numpy as np

from compositions.capacity.costs import Conditions, StageCost
from compositions.capacity.predict import predict_all
from compositions.capacity.table import CompositionTable
from compositions.enumeration import generate
from compositions.model import Composition, Stage, all_sequential
from control.choices import Choices
from control.decisions import Decision, Mode
from control.manager import Manager
from control.settings import Settings
from control.strategies import make_strategy
from lab.benchmarks.harness import Rounds, Rows, main
from profiler.slo import Slo
from profiler.snapshot import InputNow, LatencyStats, Snapshot, StageProfile

STAGES = tuple(Stage(name) for name in ("decode", "segment", "extract", "vectorize", "rank", "encode"))
LIMITS_MS = {20: 50.0, 9_995: 50.0}  # the maximum number of this kind that may be generated
PRICED_MS = 25.0
TURN_S, PAST_S = 0.25, 600.0
WAVES = 12  # as many turns of a load that waves as others; of 20 each, the whole of a wave
SLOS = {"throughput": Slo("throughput", "input_rate"), "latency": Slo("latency", 400.0, 0.2, "p95")}


def compositions(count: int) -> tuple[Composition, ...]:
    plain = all_sequential(STAGES)
    others = generate(STAGES, max_workers=24, replicas=[1, 2, 4, 8])
    return (plain, *islice((c for c in others if c.shape != plain.shape), count - 1))


def overloaded(now_s: float) -> Snapshot:
    """Return a snapshot that requires a decision: 30 items/s into stages with a capacity of 14."""
    latency = LatencyStats(2.1, 2.1, 2.3, 2.4, 140)
    done = int(14 * now_s)
    profiles = tuple(
        StageProfile(stage.name, each_s, each_s, 0.3, 0.02, 0.05, 140, done=done, worked_s=done * each_s)
        for stage, each_s in zip(STAGES, np.arange(0.02, 0.08, 0.01).tolist(), strict=True)
    )
    return Snapshot(
        now_s=now_s,
        composition="sequential",
        switching=False,
        stable_since_s=0.0,
        window_start_s=now_s - 10,
        input_rate_per_s=30.0,
        throughput_per_s=14.0,
        delivered=140,
        latency=latency,
        inside=latency,
        queued=32,
        queued_change_per_s=0.0,
        in_flight=12,
        stages=profiles,
        cores=16,
        workers_alive=6,
        hop_s=0.0003,
    )


def quiet_ticks(count: int, slo: Slo, rounds: int) -> list[float]:
    """Return the seconds of each tick if there is nothing to do."""
    chosen_from = compositions(count)
    choices = Choices(STAGES, chosen_from, chosen_from[0])
    manager = Manager(Settings(), make_strategy("static"), choices, Mode.AUTO, slo)
    took = []
    for round_ in range(rounds):
        snapshot = overloaded(100.0 + round_ / 4)
        began = thread_time()
        manager.tick(snapshot.now_s, snapshot)
        took.append(thread_time() - began)
    return took


def waving_ticks(count: int, slo: Slo, rounds: int, *, composes: bool) -> list[float]:
    """Return the seconds of ticks while counted arrivals wave, after ten minutes of history. The app stays as it
    is, so most ticks decide: it is too small while the rate is high, and too large while it is low."""
    draw, few = np.random.default_rng(0), compositions(20)
    choices = Choices(STAGES, few, few[0], generated=composes)
    manager = Manager(Settings(), make_strategy("expected-cost"), choices, Mode.OBSERVE, slo)
    arrived, took, decided = 0, [], 0
    for turn in range(int(PAST_S / TURN_S) + rounds):
        now_s = turn * TURN_S
        rate = 15.0 + 12.0 * sin(2 * pi * now_s / 60.0)
        arrived += int(draw.poisson(rate * TURN_S))
        if turn == int(PAST_S / TURN_S):
            manager.set_compositions(compositions(count))
            choices.generated = composes
        snapshot = replace(overloaded(now_s), queued=0, input_rate_per_s=rate, input=InputNow(arrived=arrived))
        began = thread_time()
        result = manager.tick(now_s, snapshot)
        took.append(thread_time() - began)
        decided += isinstance(result.decision, Decision)
    assert decided, "the manager decided"
    return took[-rounds:]


def pricing(count: int, rounds: int) -> list[float]:
    """Return the seconds that the capacity model takes for all of them at one rate, from one table."""
    table, took = CompositionTable(compositions(count)), []
    costs = {stage.name: StageCost(0.01 * number, 0.01 * number, 0.3) for number, stage in enumerate(STAGES, start=1)}
    for _ in range(rounds):
        began = thread_time()
        predict_all(table, costs, Conditions(cores=4, hop_s=1e-4, input_rate_per_s=10))
        took.append(thread_time() - began)
    return took


KINDS: dict[str, Callable[[int, Slo, int], list[float]]] = {
    "nothing to do": quiet_ticks,
    "chooses from the list": lambda count, slo, rounds: waving_ticks(count, slo, WAVES * rounds, composes=False),
    "composes": lambda count, slo, rounds: waving_ticks(count, slo, WAVES * rounds, composes=True),
}


def measure(rounds: Rounds = 20) -> Iterator[Rows]:
    rows, checks = [], {}
    for count, limit_ms in LIMITS_MS.items():
        for name, slo in SLOS.items():
            for kind, ticks in KINDS.items():
                took_ms = [1e3 * each for each in ticks(count, slo, rounds)]
                row = {
                    "compositions": count, "SLO": name, "kind": kind, "median": statistics.median(took_ms),
                    "p99": float(np.quantile(took_ms, 0.99)), "worst": max(took_ms), "limit": limit_ms,
                }  # fmt: skip
                rows.append(row)
                checks[f"{count} compositions, {name}, {kind}: p99 ≤ {limit_ms:g} ms"] = row["p99"] <= limit_ms
    yield Rows("CPU of a tick [ms]", rows, checks)
    count = max(LIMITS_MS)
    priced_ms = 1e3 * min(pricing(count, rounds))
    checks = {f"≤ {PRICED_MS:g} ms": priced_ms <= PRICED_MS}
    yield Rows(f"CPU to price {count} compositions [ms]", [{"best": priced_ms}], checks)


if __name__ == "__main__":
    main(measure)
