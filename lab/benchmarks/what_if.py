"""Compare what-if predictions with runs made afterwards: on one or two real cores, and on up to eight simulated cores.

    python -m lab.benchmarks.what_if [--seconds 20] [--rounds 3] [--simulated-only] [--json]

Three stages of 10 ms of CPU in six workers are offered more than they can process. A run on some number of cores is
asked for its throughput on another number (two about one, one about two), then a run is made on that number. On a
machine that others use, a core is not a whole one: the runs of a round follow each other at once, and "here" is the
error of the prediction for the present cores.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from apps.rates import Fixed
from compositions.model import Composition, Stage
from compositions.notation import parse
from control.decisions import Mode
from control.settings import Settings
from control.strategies import make_strategy
from control.what_if import Outlook, Present, Question, outlook
from lab.benchmarks.daemon import Daemon, daemon
from lab.benchmarks.harness import Rounds, Rows, main
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
    """Items delivered per second by one run, and its prediction by number of cores."""

    delivered_per_s: float
    of: dict[int, float]


def simulated(
    cores: int, rate_per_s: float = FLOOD_PER_S, stages: tuple[SimulatedStage, ...] = STAGES
) -> tuple[float, Snapshot]:
    """Run on this number of cores; return the items/s delivered by the second half, and what was seen at its end."""
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
    """Return what the manager predicts for other cores, having seen that."""
    return outlook(
        Question(cores=cores), Present(seen, choices[0], choices, None, make_strategy("expected-cost"), Settings())
    )


@contextmanager
def _on(cores: int) -> Iterator[None]:
    """Give processes that are started meanwhile the first ``cores`` of this process only."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(own)[:cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def real(cores: int, others: Sequence[int], seconds: float) -> Told:
    """Run the daemon, its Ray and its workers on this number of cores."""
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


def _said(served: Daemon, cores: int) -> float:
    rows = served.get(f"/what-if/{APP}", cores=cores)["compositions"]
    return float(next(each for each in rows if each["name"] == "wide")["predicted_throughput_per_s"])


def compared(here: int, there: int, told: Sequence[float], made: Sequence[float]) -> dict[str, Any]:
    off = statistics.median(each / run - 1 for each, run in zip(told, made, strict=True))
    return {
        "cores": here, "about": there, "predicted": statistics.median(told), "measured": statistics.median(made),
        "error": off,
    }  # fmt: skip


def rows_of(title: str, rows: Sequence[dict[str, Any]]) -> Rows:
    checks = {f"{row['cores']} about {row['about']}: within {WITHIN:.0%}": abs(row["error"]) <= WITHIN for row in rows}
    return Rows(title, rows, checks)


def measure(
    seconds: float = 20.0, rounds: Rounds = 3, simulated_only: Annotated[bool, "the simulation alone"] = False
) -> Iterator[Rows]:
    made = {cores: simulated(cores) for cores in sorted({each for pair in SIMULATED for each in pair})}
    rows = []
    for here, there in SIMULATED:
        (option,) = asked(made[here][1], there).options
        prediction = option.prediction.throughput_per_s if option.prediction else float("nan")
        rows.append(compared(here, there, [prediction], [made[there][0]]))
    yield rows_of("in the simulation [items/s]", rows)
    if simulated_only:
        return
    pairs = ((2, 1), (1, 2))
    turns = [{here: real(here, [there], seconds) for here, there in pairs} for _ in range(rounds)]
    yield rows_of("on real cores [items/s], medians", [
        compared(here, there, [turn[here].of[there] for turn in turns], [turn[there].delivered_per_s for turn in turns])
        for here, there in (*pairs, (2, 2), (1, 1))
    ])  # fmt: skip


if __name__ == "__main__":
    main(measure)
