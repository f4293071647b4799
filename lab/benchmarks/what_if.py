"""Compare what-if predictions with runs made afterwards: on one or two real cores, and on up to eight simulated cores.

    python -m lab.benchmarks.what_if [--seconds 20] [--rounds 3] [--simulated]

Three stages of 10 ms of CPU in six workers are offered more than they can process. A run on some number of cores is
asked for its throughput on another number (two about one, one about two), then a run is made on that number. On a
machine that others use, a core is not a whole one: the runs of a round follow each other at once, and "here" is the
error of the prediction for the present cores.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from apps.rates import Fixed
from compositions.model import Composition, Stage
from compositions.notation import parse
from control.decisions import Mode
from control.settings import Settings
from control.strategies import make_strategy
from control.what_if import Outlook, Present, Question, outlook
from lab.benchmarks.daemon import Daemon, daemon
from lab.benchmarks.harness import metadata
from lab.simulation.machine import Machine
from lab.simulation.scenario import Scenario, SimulatedStage
from lab.simulation.simulation import SimulatedRun
from profiler.snapshot import Snapshot

STAGES = (SimulatedStage("f1", 0.010, 0.2), SimulatedStage("f2", 0.010, 0.2), SimulatedStage("f3", 0.010, 0.2))
NOTATION = "Par*2(f1)-Par*2(f2)-Par*2(f3)"
WIDE = replace(parse("Par*2-Par*2-Par*2", [Stage(each.name) for each in STAGES]), name="wide")
APP = "synthetic"
FLOOD_PER_S = 500.0
SIMULATED_S = 30.0
SIMULATED = ((2, 1), (2, 8), (1, 8), (8, 1), (8, 2))
SETTLE_S = 8.0
WITHIN = 0.15


@dataclass(frozen=True)
class Told:
    """Of one run: items a second that were delivered, and what it says of so many cores, with its range."""

    delivered_per_s: float
    of: dict[int, tuple[float, float, float]]


def simulated(
    cores: int, rate_per_s: float = FLOOD_PER_S, stages: tuple[SimulatedStage, ...] = STAGES
) -> tuple[float, Snapshot]:
    """Items delivered a second by the second half of a run on so many cores, and what was seen at its end."""
    machine, rate = replace(Machine(), cores=cores), Fixed(rate_per_s)
    scenario = Scenario(
        stages, (WIDE,), rate=rate, duration_s=SIMULATED_S, machine=machine, mode=Mode.OBSERVE, first=WIDE
    )
    run = SimulatedRun(scenario)
    run.advance(SIMULATED_S)
    trace, seen = run.finish(), run.loop.snapshot
    if seen is None:
        raise ValueError(f"nothing was measured within {SIMULATED_S:g} s on {cores} cores")
    return sum(each.at_s > SIMULATED_S / 2 for each in trace.delivered) / (SIMULATED_S / 2), seen


def asked(seen: Snapshot, cores: int, choices: tuple[Composition, ...] = (WIDE,)) -> Outlook:
    """What the manager would say of other cores, having seen that."""
    return outlook(Question(cores=cores), Present(seen, choices[0], choices, None, make_strategy("model"), Settings()))


@contextmanager
def _on(cores: int) -> Iterator[None]:
    """What is started meanwhile has the first so many cores of this process."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(own)[:cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def real(cores: int, others: Sequence[int], seconds: float) -> Told:
    """A run of the daemon, its Ray and its workers on so many cores."""
    with tempfile.TemporaryDirectory() as folder, _on(cores), daemon(Path(folder)) as served:
        body = f"app: {APP}\ncompositions: [{{name: wide, notation: '{NOTATION}'}}]\n"
        served.http.post("/compositions", content=body, headers={"content-type": "application/yaml"}).raise_for_status()
        start = {"input": {"rate_per_s": FLOOD_PER_S}, "options": {"total_ms": 30, "cv": 0.2}, "composition": "wide"}
        served.send("POST", f"/apps/{APP}/start", start)
        served.send("PUT", f"/apps/{APP}/mode", {"mode": "pinned", "composition": "wide"})
        served.wait_for(lambda: _delivered(served) > 0, 120, "the first item")
        time.sleep(SETTLE_S)
        began_s, before = time.monotonic(), _delivered(served)
        time.sleep(seconds)
        rate = (_delivered(served) - before) / (time.monotonic() - began_s)
        told = {each: _said(served, each) for each in (cores, *others)}
        served.send("POST", f"/apps/{APP}/stop", {"drain": False})
    return Told(rate, told)


def _delivered(served: Daemon) -> int:
    return int(served.status(APP)["items"]["delivered"])


def _said(served: Daemon, cores: int) -> tuple[float, float, float]:
    rows = served.get(f"/what-if/{APP}", cores=cores)["compositions"]
    row = next(each for each in rows if each["name"] == "wide")
    low, high = row["throughput_per_s_range"]
    return row["predicted_throughput_per_s"], low, high


def compare(here: str, there: int, told: Sequence[float], made: Sequence[float]) -> bool:
    off = statistics.median(each / run - 1 for each, run in zip(told, made, strict=True))
    pairs = ", ".join(f"{each:.1f} told, {run:.1f} made" for each, run in zip(told, made, strict=True))
    print(f"  {here} about {there}: {pairs}; {off:+.1%} ({'within' if abs(off) <= WITHIN else 'BEYOND'} {WITHIN:.0%})")
    return abs(off) <= WITHIN


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--simulated", action="store_true", help="the simulation alone")
    wanted = parser.parse_args(arguments)
    print(*(f"{name}: {value}" for name, value in metadata().items()), sep="\n")
    print("In the simulation, items/s")
    made = {cores: simulated(cores) for cores in sorted({each for pair in SIMULATED for each in pair})}
    good = []
    for here, there in SIMULATED:
        (option,) = asked(made[here][1], there).options
        prediction = option.prediction.throughput_per_s if option.prediction else float("nan")
        good.append(compare(str(here), there, [prediction], [made[there][0]]))
    if wanted.simulated:
        return 0 if all(good) else 1
    print("On real cores, items/s", flush=True)
    rounds = [
        {cores: real(cores, [other], wanted.seconds) for cores, other in ((2, 1), (1, 2))} for _ in range(wanted.rounds)
    ]
    for here, there in ((2, 1), (1, 2), (2, 2), (1, 1)):
        told = [turn[here].of[there][0] for turn in rounds]
        good.append(compare(str(here), there, told, [turn[there].delivered_per_s for turn in rounds]))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
