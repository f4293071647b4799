"""Strategy ``model`` under loads, stages, cores and bounds drawn at random, on which nothing was chosen: held out.

python -m benchmarks.drawn_loads [--first 0] [--tasks 30] [--policies model,peak]
"""

from __future__ import annotations

import argparse
import math
import random
from statistics import fmean

from apps.input.rates import Rate
from compositions.enumeration import generate
from compositions.model import Stage
from profiler.slo import parse_slo
from runtime.pools.simulated_machine import Machine
from service.gym.clairvoyant import Clairvoyant
from service.gym.loads import Span
from service.gym.play import play
from service.gym.task import Task
from service.running.simulated.scenario import SimulatedStage

SECONDS = 400.0
KINDS = ("wave", "steps", "crowd", "random", "ramp")


def task_of(seed: int) -> tuple[Task, str]:
    """Two to five stages of 4 to 100 ms; at most four fifths of 6 to 14 cores; odd seeds are Poisson. With its kind."""
    draw = random.Random(7919 * (seed + 1))
    count, cores = draw.choice((2, 3, 3, 4, 4, 5)), draw.choice((6, 8, 10, 12, 14))
    names = "abcde"[:count]
    service_s = [math.exp(draw.uniform(math.log(0.004), math.log(0.1))) for _ in names]
    stages = tuple(
        SimulatedStage(name, each_s, draw.choice((0.3, 0.5, 0.8)))
        for name, each_s in zip(names, service_s, strict=True)
    )
    high_per_s = draw.uniform(0.5, 0.8) * cores / sum(service_s)
    span = Span(high_per_s * draw.uniform(0.08, 0.4), high_per_s, SECONDS)
    period_s = draw.uniform(30, 150)
    kind = draw.choice(KINDS)
    rate = _rate(kind, span, period_s, draw, seed)
    bound_ms = round(1e3 * max(draw.uniform(2.5, 5) * sum(service_s), 0.1))
    listed = tuple(generate([Stage(name) for name in names], max_workers=cores, replicas=range(1, cores + 1)))
    slo, arrivals = parse_slo(f"share95={bound_ms}ms"), "poisson" if seed % 2 else "paced"
    task = Task(stages, listed, Machine(cores), rate, slo, bound_ms / 1e3, arrivals, SECONDS, seed)  # type: ignore[arg-type]
    return task, f"{kind}, {arrivals}, {count} stages, {cores} cores"


def _rate(kind: str, span: Span, period_s: float, draw: random.Random, seed: int) -> Rate:
    match kind:
        case "wave":
            return span.wave(period_s)
        case "steps":
            return span.held(period_s, seed)
        case "crowd":
            return span.crowds(period_s * draw.uniform(0.15, 0.4), period_s)
        case "random":
            return span.held(draw.uniform(3, 10), seed)
        case _:
            return span.ramp()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--tasks", type=int, default=30)
    parser.add_argument("--policies", default="model,peak")
    options = parser.parse_args()
    for policy in options.policies.split(","):
        found = [_played(seed, policy) for seed in range(options.first, options.first + options.tasks)]
        in_time, cost = (fmean(each) for each in zip(*found, strict=True))
        print(f"{policy}: in time {in_time:.3f}, x least {cost:.3f}, of {len(found)} tasks")


def _played(seed: int, policy: str) -> tuple[float, float]:
    task, told = task_of(seed)
    run = play(task, policy)
    cost = run.worker_s / Clairvoyant(task).worker_s()
    print(
        f"{seed:4} {told:40} {policy:6} in time {run.in_time:.3f}  x least {cost:.3f}  changes {run.changes}",
        flush=True,
    )
    return run.in_time, cost


if __name__ == "__main__":
    main()
