"""How policies follow a load that moves, in virtual time: items in time, worker-seconds, changes.

Cost is in worker-seconds: against the composition provisioned for the peak, and against the least, which one would pay
who knew all and had the fewest workers at each moment.

    python -m benchmarks.changing_load [--policies model,peak] [--loads wave,crowd] [--arrivals paced] [--seeds 5]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from statistics import fmean

from compositions.enumeration import generate
from compositions.model import Stage
from profiler.slo import parse_slo
from runtime.pools.simulated_machine import Machine
from service.gym.clairvoyant import Clairvoyant
from service.gym.loads import LOADS, Span
from service.gym.play import play
from service.gym.task import Task
from service.running.simulated.scenario import SimulatedStage

STAGES = {"a": 0.010, "b": 0.060, "c": 0.025, "d": 0.005}
CV, CORES, BOUND_S, SPAN = 0.5, 12, 0.25, Span()


def task_of(load: str, arrivals: str, seed: int, slo: str) -> Task:
    stages = tuple(SimulatedStage(name, service_s, CV) for name, service_s in STAGES.items())
    listed = tuple(generate([Stage(name) for name in STAGES], max_workers=CORES, replicas=range(1, CORES + 1)))
    rate = LOADS[load](SPAN, seed)
    return Task(
        stages,
        listed,
        Machine(CORES),
        rate,
        parse_slo(slo),
        BOUND_S,
        arrivals,
        SPAN.duration_s,
        seed,  # type: ignore[arg-type]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policies", default="model,peak")
    parser.add_argument("--loads", default="", help="beginnings of names")
    parser.add_argument("--arrivals", default="paced,poisson")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--slo", default="share95=250ms")
    options = parser.parse_args(arguments)
    wanted = tuple(options.loads.split(","))
    heads = f"{'in time':>8} {'cost':>6} {'x least':>8} {'changes':>8} {'took s':>7}"
    print(f"{'load':20} {'arrivals':8} {'policy':8} {heads}")
    for load in (name for name in LOADS if name.startswith(wanted)):
        for arrivals in options.arrivals.split(","):
            for policy in options.policies.split(","):
                _row(load, arrivals, policy, options)


def _row(load: str, arrivals: str, policy: str, options: argparse.Namespace) -> None:
    began_s = time.monotonic()
    tasks = [task_of(load, arrivals, seed, options.slo) for seed in range(options.seeds)]
    runs = [play(task, policy) for task in tasks]
    took_s = (time.monotonic() - began_s) / len(tasks)
    clairvoyant_s = [Clairvoyant(task).worker_s() for task in tasks]
    peak_s = [Clairvoyant(task).peak().workers * task.duration_s for task in tasks]
    cost = fmean(run.worker_s / at_peak for run, at_peak in zip(runs, peak_s, strict=True))
    against = fmean(run.worker_s / least for run, least in zip(runs, clairvoyant_s, strict=True))
    in_time, changes = fmean(run.in_time for run in runs), fmean(run.changes for run in runs)
    shown = f"{in_time:8.3f} {cost:6.2f} {against:8.2f} {changes:8.1f} {took_s:7.1f}"
    print(f"{load:20} {arrivals:8} {policy:8} {shown}", flush=True)


if __name__ == "__main__":
    main()
