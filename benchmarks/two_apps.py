"""Two apps on one simulated machine whose loads take turns: who gets the workers?

    python -m benchmarks.two_apps [--quick] [--json]

Each app has three stages of 45 ms together, nine tenths of it waiting, independent users, and wants 95 % of its items
within 400 ms. For a minute one of them has 90 items/s and the other 8, then the other way round. There may be eight
workers, which is what memory leaves. Compared in one run: each app has half of them, each takes what it likes, or an
arbiter gives them. The first turn is left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace

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
HIGH_PER_S, LOW_PER_S, TURN_S = 90.0, 8.0, 60.0
HALF, ANY = Budget(workers=WORKERS // 2), Budget()


def app(first: bool, budget: Budget, duration_s: float, seed: int) -> Scenario:
    """``first``: its turn comes first."""
    stages = tuple(SimulatedStage(name, service_s, CV, WAIT_SHARE) for name, service_s in STAGES.items())
    turns = range(int(duration_s / TURN_S) + 1)
    measuring = replace(Settings().measuring, latency_from=LatencyFrom.DUE)
    choices = generate([Stage(name) for name in STAGES], max_workers=10, replicas=[1, 2, 3, 4, 5, 6, 7, 8])
    return Scenario(
        stages=stages,
        compositions=tuple(choices),
        slo=together([parse_slo("share95=400ms")], budget),
        rate=steps([(turn * TURN_S, HIGH_PER_S if (turn % 2 == 0) is first else LOW_PER_S) for turn in turns]),
        duration_s=duration_s,
        machine=Machine(CORES),
        settings=replace(Settings(), measuring=measuring),
        arrivals="poisson",
        seed=seed,
    )


def run(budget: Budget, arbitration: Arbitration | None, duration_s: float, seed: int) -> Mapping[str, Trace]:
    apps = {"first": app(True, budget, duration_s, seed), "second": app(False, budget, duration_s, seed + 100)}
    return simulate_together(apps, CORES, arbitration)


def measure(rounds: int, duration_s: float) -> list[Table]:
    goal = Goal("the one that is worse off, of 0.95", "arbiter", "wanted", 1.0, False)
    met = Table("Time in which the objective is met, of the app that is worse off", "share", [goal])
    within = Table("Items within 400 ms, of the app that is worse off", "share")
    most = Table("Workers of both, at the most", "workers")
    changes = Table("Changes of composition, of both", "changes")
    for seed in range(rounds):
        ways = {"halves": (HALF, None), "as they like": (ANY, None)}
        traces = {name: run(*way, duration_s, seed) for name, way in ways.items()}
        traces["arbiter"] = run(ANY, Arbitration(MachineBudget(workers=WORKERS)), duration_s, seed)
        each = {name: list(found.values()) for name, found in traces.items()}
        met.rounds.append({name: min(t.met_share(TURN_S, duration_s) for t in both) for name, both in each.items()})
        met.rounds[-1]["wanted"] = 0.95
        within.rounds.append({name: min(in_time(t) for t in both) for name, both in each.items()})
        most.rounds.append({name: float(at_most(*both)) for name, both in each.items()})
        changes.rounds.append({n: sum(t.switches_between(0, duration_s) for t in both) for n, both in each.items()})
    return [met, within, most, changes]


def in_time(trace: Trace) -> float:
    waited_s = [each.latency_s for each in trace.delivered if each.since_s >= TURN_S]
    return sum(each <= 0.4 for each in waited_s) / max(1, len(waited_s))


def at_most(one: Trace, other: Trace) -> int:
    """Workers at a time, after the first turn."""
    pairs = zip(one.moments, other.moments, strict=False)
    return max(a.workers + b.workers for a, b in pairs if a.at_s >= TURN_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round of three turns")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rounds, turns = (1, 3) if args.quick else (3, 8)
    about = {"turn_s": f"{TURN_S:g}", "workers": str(WORKERS), "rates_per_s": f"{HIGH_PER_S:g}, {LOW_PER_S:g}"}
    report(measure(rounds, turns * TURN_S), args.json, about)


if __name__ == "__main__":
    main()
