"""Two apps on one simulated machine whose loads take turns: who gets the workers?

    python -m benchmarks.two_apps [--quick] [--load LOAD …] [--seeds 5] [--first 0] [--json]

Each app has three stages of 45 ms together, nine tenths of it waiting, independent users, and wants 95 % of its items
within 400 ms. For a minute (half a minute) one of them has 90 items/s and the other 8, then the other way round; or
each has waves of 90 s, one high where the other is low. There may be eight workers, which is what memory leaves.
Compared in one run: each app has half of them, each takes what it likes, or an arbiter gives them. The first minute is
left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from apps.input.rates import Rate, Wave
from benchmarks.harness import Goal, Table, report
from compositions.enumeration import generate
from compositions.model import Stage
from control.arbitration.machine import Arbitration, MachineBudget
from control.settings import Settings
from profiler.budget import Budget
from profiler.slo import parse_slo, together
from profiler.snapshot import LatencyFrom
from runtime.pools.simulated_machine import Machine
from service.running.simulated.scenario import Scenario, SimulatedStage, steps
from service.running.simulated.together import simulate_together
from service.running.simulated.trace import Trace

STAGES = {"read": 0.005, "find": 0.030, "rank": 0.010}
"""Seconds an item."""
WAIT_SHARE, CV, CORES, WORKERS = 0.9, 0.3, 2, 8
HIGH_PER_S, LOW_PER_S, LEFT_OUT_S, DURATION_S = 90.0, 8.0, 60.0, 480.0
HALF, ANY = Budget(workers=WORKERS // 2), Budget()


def taking_turns(turn_s: float, first: bool) -> Rate:
    turns = range(int(DURATION_S / turn_s) + 1)
    return steps([(turn * turn_s, HIGH_PER_S if (turn % 2 == 0) is first else LOW_PER_S) for turn in turns])


def waves(period_s: float, first: bool) -> Rate:
    wave = Wave(period_s, LOW_PER_S, HIGH_PER_S)
    return lambda at_s: wave(at_s if first else at_s + period_s / 2)


LOADS: dict[str, Callable[[bool], Rate]] = {
    "turns of 60 s": partial(taking_turns, 60.0),
    "turns of 30 s": partial(taking_turns, 30.0),
    "waves of 90 s": partial(waves, 90.0),
}
"""Of the first app, or the other."""


def app(rate: Rate, budget: Budget, duration_s: float, seed: int) -> Scenario:
    stages = tuple(SimulatedStage(name, service_s, CV, WAIT_SHARE) for name, service_s in STAGES.items())
    measuring = replace(Settings().measuring, latency_from=LatencyFrom.DUE)
    choices = generate([Stage(name) for name in STAGES], max_workers=10, replicas=[1, 2, 3, 4, 5, 6, 7, 8])
    return Scenario(
        stages=stages,
        compositions=tuple(choices),
        slo=together([parse_slo("share95=400ms")], budget),
        rate=rate,
        duration_s=duration_s,
        machine=Machine(CORES),
        settings=replace(Settings(), measuring=measuring),
        arrivals="poisson",
        seed=seed,
    )


@dataclass(frozen=True)
class Lasting:
    """One round."""

    duration_s: float
    seed: int


def run(load: str, budget: Budget, arbitration: Arbitration | None, lasting: Lasting) -> Mapping[str, Trace]:
    rates = {"first": LOADS[load](True), "second": LOADS[load](False)}
    seeds = {"first": lasting.seed, "second": lasting.seed + 100}
    apps = {name: app(rate, budget, lasting.duration_s, seeds[name]) for name, rate in rates.items()}
    return simulate_together(apps, CORES, arbitration)


def measure(load: str, seeds: range, duration_s: float) -> list[Table]:
    goal = Goal("the one that is worse off, of 0.95", "arbiter", "wanted", 1.0, False)
    met = Table(f"{load}: time in which the objective is met, of the app that is worse off", "share", [goal])
    within = Table(f"{load}: items within 400 ms, of the app that is worse off", "share")
    most = Table(f"{load}: workers of both, at the most", "workers")
    changes = Table(f"{load}: changes of composition, of both", "changes")
    for seed in seeds:
        lasting = Lasting(duration_s, seed)
        ways = {"halves": (HALF, None), "as they like": (ANY, None)}
        traces = {name: run(load, *way, lasting) for name, way in ways.items()}
        traces["arbiter"] = run(load, ANY, Arbitration(MachineBudget(workers=WORKERS)), lasting)
        each = {name: list(found.values()) for name, found in traces.items()}
        met.rounds.append({n: min(t.met_share(LEFT_OUT_S, duration_s) for t in both) for n, both in each.items()})
        met.rounds[-1]["wanted"] = 0.95
        within.rounds.append({name: min(in_time(t) for t in both) for name, both in each.items()})
        most.rounds.append({name: float(at_most(*both)) for name, both in each.items()})
        changes.rounds.append({n: sum(t.switches_between(0, duration_s) for t in both) for n, both in each.items()})
    return [met, within, most, changes]


def in_time(trace: Trace) -> float:
    waited_s = [each.latency_s for each in trace.delivered if each.since_s >= LEFT_OUT_S]
    return sum(each <= 0.4 for each in waited_s) / max(1, len(waited_s))


def at_most(one: Trace, other: Trace) -> int:
    """Workers at a time, after the first turn."""
    pairs = zip(one.moments, other.moments, strict=False)
    return max(a.workers + b.workers for a, b in pairs if a.at_s >= LEFT_OUT_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round of three minutes")
    parser.add_argument("--load", action="append", choices=list(LOADS), help="only this; may be given several times")
    parser.add_argument("--seeds", type=int, default=5, help="rounds of eight minutes")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rounds, duration_s = (1, 180.0) if args.quick else (args.seeds, DURATION_S)
    seeds = range(args.first, args.first + rounds)
    about = {"workers": str(WORKERS), "rates_per_s": f"{HIGH_PER_S:g}, {LOW_PER_S:g}"}
    tables = [table for load in args.load or LOADS for table in measure(load, seeds, duration_s)]
    report(tables, args.json, about)


if __name__ == "__main__":
    main()
