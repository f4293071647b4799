"""Simulate several apps on one machine, with an arbiter between them or without one."""

from collections.abc import Mapping

from control.arbitration.machine import Arbitration
from lab.simulation.scenario import Scenario
from lab.simulation.simulation import SimulatedRun
from lab.simulation.trace import Trace

SLICE_S = 0.01
"""Seconds for which the cores stay divided as they are: an operating system's time slice."""
ASKED_EVERY_S = 0.5


def simulate_together(
    scenarios: Mapping[str, Scenario], cores: int, arbitration: Arbitration | None = None
) -> Mapping[str, Trace]:
    """Run all ``scenarios``, by app, on ``cores`` that all their workers share evenly; for the shortest duration."""
    runs = {app: SimulatedRun(scenario) for app, scenario in scenarios.items()}
    slices = round(min(each.duration_s for each in scenarios.values()) / SLICE_S)
    every = round(ASKED_EVERY_S / SLICE_S)
    for number in range(1, slices + 1):
        _divide(list(runs.values()), cores)
        for run in runs.values():
            run.advance(number * SLICE_S)
        if arbitration is not None and number % every == 0:
            _arbitrate(runs, arbitration, number * SLICE_S)
    return {app: run.finish() for app, run in runs.items()}


def _divide(runs: list[SimulatedRun], cores: int) -> None:
    """Give each worker that computes the same share; what others leave is there for a worker that begins."""
    busy = sum(run.pool.cores.busy for run in runs)
    for run in runs:
        own = max(1, run.pool.cores.busy)  # who begins within the slice has the right of one
        others = busy - run.pool.cores.busy
        run.pool.set_cores(max(cores * own / (own + others), cores - others))


def _arbitrate(runs: Mapping[str, SimulatedRun], arbitration: Arbitration, now_s: float) -> None:
    limits = arbitration.budget.limits()
    bids = {app: run.manager.bid(limits) for app, run in runs.items()}
    for app, grant in arbitration.grants(now_s, bids).items():
        runs[app].manager.grant(grant)
