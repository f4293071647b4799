"""Kills a random worker process every few seconds under load, and counts what came out (issue: faults).

python -m lab.benchmarks.kill_workers [--seconds 60] [--every 3] [--json]
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import click

from apps.synthetic.app import SyntheticOptions
from lab.benchmarks.harness import metadata, tell
from lab.simulation.synthetic_checks import verify
from runtime.pools.ray import cluster
from service.runner.rpc.requests import ReadStatus, ResetGaps, Start, Stop
from service.runner.runner import Runner
from service.schemas.spec import InputSpec, RunSpec

OPTIONS = {"compute": "wait", "total_ms": 24}


@dataclass(frozen=True)
class Killing:
    """What a run with killed workers came to."""

    kills: int
    restarts: int
    accepted: int
    delivered: int
    failed: int
    lost: int
    doubled: int
    misordered: int
    wrong: int
    longest_gap_s: float


def runner_of(out_path: str, rate_per_s: float = 40.0, settings: Mapping[str, float] | None = None) -> Runner:
    """Of Synthetic in composition 7 (six workers), not started; its results go to ``out_path``."""
    spec = RunSpec(
        app="synthetic", options=OPTIONS, composition="7", strategy="static", out_path=out_path,
        input=InputSpec(rate_per_s=rate_per_s), switch_style="seamless", settings=dict(settings or {}),
    )  # fmt: skip
    return Runner(spec)


def run(seconds: float, every_s: float, out_path: str, *, rate_per_s: float = 40.0, seed: int = 1) -> Killing:
    """Kills one of the workers every ``every_s``."""
    cluster.connect()
    runner = runner_of(out_path, rate_per_s)
    runner.ask(Start())
    try:
        wait_until_up(runner)
        kills, restarts, gap_s = _kill(runner, seconds, every_s, random.Random(seed))
    finally:
        runner.ask(Stop())
    return judged(runner, out_path, kills, restarts, gap_s)


def wait_until_up(runner: Runner) -> None:
    """Until results come. Raises: RuntimeError when they do not."""
    give_up_s = time.monotonic() + 60
    while runner.ask(ReadStatus()).items.delivered < 40:
        if time.monotonic() > give_up_s or runner.wait(0.1):
            raise RuntimeError(f"the app did not come up: {runner.ask(ReadStatus())}")


def _kill(runner: Runner, seconds: float, every_s: float, chance: random.Random) -> tuple[int, int, float]:
    """Returns kills, restarts, and the longest time without an output."""
    end_s, next_kill_s, kills = time.monotonic() + seconds, time.monotonic() + every_s, 0
    runner.ask(ResetGaps())
    while time.monotonic() < end_s:
        time.sleep(0.05)
        if time.monotonic() >= next_kill_s:
            next_kill_s += every_s
            os.kill(chance.choice(runner.ask(ReadStatus()).workers).pid, signal.SIGKILL)
            kills += 1
    status = runner.ask(ReadStatus())
    return kills, status.health.restarts, status.changes.output_gap_ms.max / 1e3


def judged(runner: Runner, out_path: str, kills: int, restarts: int, gap_s: float) -> Killing:
    """What is in ``out_path`` against what was accepted; the run has ended."""
    items = runner.ask(ReadStatus()).items
    with open(out_path, encoding="utf-8") as lines:
        verdict = verify((json.loads(line) for line in lines), SyntheticOptions(**OPTIONS), accepted=items.accepted)
    return Killing(
        kills, restarts, items.accepted, verdict.delivered, verdict.failed, verdict.lost, verdict.doubled,
        verdict.misordered, verdict.wrong, gap_s,
    )  # fmt: skip


@click.command()
@click.option("--seconds", default=60.0)
@click.option("--every", default=3.0, help="seconds between kills")
@click.option("--json", "as_json", is_flag=True)
def main(seconds: float, every: float, as_json: bool) -> None:
    """Prints what a run with killed workers came to."""
    out_path = f"{os.environ.get('TMPDIR', '/tmp')}/kill_workers-{os.getpid()}.jsonl"
    figures = {**metadata(), **asdict(run(seconds, every, out_path))}
    os.unlink(out_path)
    tell(figures, as_json)


if __name__ == "__main__":
    main()
