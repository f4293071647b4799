"""Kill worker processes under load: count the results and measure the longest gap between outputs."""

import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from random import Random

from apps.synthetic.app import SyntheticOptions
from lab.experiments.runs import UP_S, wait_for
from lab.simulation.synthetic_checks import Verdict, verify
from runtime.pools.ray import cluster
from service.runner.rpc.requests import ReadStatus, ResetGaps, Start, Stop
from service.runner.runner import Runner
from service.schemas.spec import InputSpec, RunSpec

OPTIONS = {"compute": "wait", "total_ms": 24}


@dataclass(frozen=True, kw_only=True)
class Killing(Verdict):
    """The result of a run with killed workers."""

    kills: int
    restarts: int
    accepted: int
    longest_gap_s: float


def runner_of(out_path: str, settings: Mapping[str, float] | None = None) -> Runner:
    """Return a runner of Synthetic in composition 7 (six workers), not started; its results go to ``out_path``."""
    spec = RunSpec(
        app="synthetic", options=OPTIONS, composition="7", strategy="static", out_path=out_path,
        input=InputSpec(rate_per_s=40.0), switch_style="seamless", settings=dict(settings or {}),
    )  # fmt: skip
    return Runner(spec)


def wait_until_up(runner: Runner) -> None:
    wait_for(runner, 40, UP_S)


def longest_gap_s(runner: Runner) -> float:
    gaps = runner.ask(ReadStatus()).changes.output_gap_ms
    assert gaps is not None
    return (gaps.max or 0.0) / 1e3


def judged(runner: Runner, out_path: str, kills: int, restarts: int, gap_s: float) -> Killing:
    """Compare the results in ``out_path`` with the accepted items; the run has ended."""
    items = runner.ask(ReadStatus()).items
    with open(out_path, encoding="utf-8") as lines:
        verdict = verify((json.loads(line) for line in lines), SyntheticOptions(**OPTIONS), accepted=items.accepted)
    counts = {"kills": kills, "restarts": restarts, "accepted": items.accepted}
    return Killing(**asdict(verdict), **counts, longest_gap_s=gap_s)


def workers_killed(seconds: float, every_s: float, out_path: str, seed: int = 1) -> Killing:
    """Kill one of the workers every ``every_s``."""
    cluster.connect()
    runner, chance, kills = runner_of(out_path), Random(seed), 0
    runner.ask(Start())
    try:
        wait_until_up(runner)
        runner.ask(ResetGaps())
        began_s = time.monotonic()
        while (kills + 1) * every_s < seconds:
            time.sleep(max(0.0, began_s + (kills + 1) * every_s - time.monotonic()))
            os.kill(chance.choice(runner.ask(ReadStatus()).workers).pid, signal.SIGKILL)
            kills += 1
        time.sleep(max(0.0, began_s + seconds - time.monotonic()))
        restarts, gap_s = runner.ask(ReadStatus()).health.restarts or 0, longest_gap_s(runner)
    finally:
        runner.ask(Stop())
    return judged(runner, out_path, kills, restarts, gap_s)
