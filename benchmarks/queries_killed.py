"""A query on Ray for minutes, while workers get SIGKILL, partitions move and the composition changes each second: what
comes out is what a plain loop over the same items tells, byte for byte.

    python -m benchmarks.queries_killed [--query q1] [--seconds 180] [--kill-every 4] [--workers 4] [--json]

Rows come as fast as they are taken, in bundles of 1 to 512. Each second the composition becomes another, drawn from all
of so many workers and from ``Dyn`` with each scheduler; a resize where only numbers differ, else a switch.
"""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from typing import Any

import click

from apps.contract import App, Outputs
from apps.registry import create
from benchmarks.harness import metadata, tell
from benchmarks.matrix.plain import serial
from benchmarks.matrix.streams import SQL, brought
from compositions.dynamic import SCHEDULER_NAMES
from compositions.enumeration import generate
from compositions.model import Composition, Stage
from compositions.notation import parse
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.events import SwitchStyle, WorkerId
from runtime.dispatch.instructions import Task
from runtime.dispatch.outcomes import Delivered, SwitchEnded
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine
from runtime.pools import ray_cluster
from runtime.pools.ray_pool import RayPool

EVERY_S = 1.0
"""The composition changes."""
PATIENCE_S = 120.0
"""For the first workers, and for what is under way in the end."""
OPTIONS: dict[str, dict[str, Any]] = {
    "q1": {"hours": 40_000.0, "stores": [*range(1, 61)], "least": 0, "most": 20},
    "q2": {"hours": 99_000.0, "item": 101}, "q3": {"hours": 99_000.0, "item": 101}, "q4": {"hours": 99_000.0},
    "q15": {"hours": 99_000.0, "tick_s": 86_400, "window_days": 2},
}  # fmt: skip
SPARES = 2
"""Workers beyond those of a composition: on a busy machine one takes longer to start than the next lives."""
MANY = {"rows": 20_000_000, "items": 300, "users": 200, "partitions": 16, "tick_s": 900}
"""Of the stream: more than are taken, made as they are read."""


@dataclass(frozen=True)
class Came:
    """What came of a run."""

    items: int
    values: int
    dead_letters: int
    kills: int
    restarts: int
    switches: int
    resizes: int
    failed_changes: int
    moved: int
    """Partitions that came to a worker with their states."""
    seconds: float
    equal: bool


class Watched(RayPool):
    """Counts the partitions that a task brings with their states."""

    moved = 0

    def send(self, worker: WorkerId, tasks: Sequence[Task]) -> None:
        self.moved += brought(tasks)
        super().send(worker, tasks)


class Stream:
    """A query on Ray, driven as the runner does."""

    def __init__(self, query: str, workers: int, seed: int) -> None:
        make_app = partial(create, f"tpcxbb_{query}", {**MANY, **OPTIONS[query]})
        self.app: App = make_app()
        self._chance = random.Random(seed)
        self._choices = choices(self.app.stages, workers)
        self._pool = Watched(make_app, [stage.name for stage in self.app.stages])
        settings = DispatcherSettings(buffer_items=2048, spares=SPARES)
        dispatcher = Dispatcher(self.app.stages, self._choices[0], settings, self._pool.codec.size_bytes)
        self.engine = Engine(dispatcher, self._pool)
        self._rows: Iterator[Any] = iter(self.app.items(None))
        self.taken: list[Any] = []
        self.values: list[Any] = []
        self.dead_letters = self.kills = 0
        self.ended: list[SwitchEnded] = []

    @property
    def moved(self) -> int:
        return self._pool.moved

    def run(self, seconds: float, kill_every_s: float) -> None:
        """Until all that was taken by then is out, or nobody believes in it any more."""
        self.engine.start()
        most = max(each.workers for each in self._choices)
        self.engine.switch(next(each for each in self._choices if each.workers == most))
        up_s = self.engine.now_s + PATIENCE_S
        while (self.engine.view().switching or not self.ended) and self.engine.now_s < up_s:
            self._hear(self.engine.now_s + 0.1)
        end_s = self.engine.now_s + seconds
        kill_s, change_s = self.engine.now_s + kill_every_s, self.engine.now_s + EVERY_S
        while (now_s := self.engine.now_s) < end_s + PATIENCE_S and not (now_s >= end_s and self.engine.idle):
            if now_s < end_s and self.engine.has_room:
                self._admit()
            if now_s < end_s and now_s >= kill_s:
                kill_s = now_s + kill_every_s
                self._kill()
            if now_s >= change_s:
                change_s = now_s + EVERY_S
                self._change()
            self._hear(now_s if self.engine.has_room and now_s < end_s else now_s + 0.05)

    def _admit(self) -> None:
        bundle = list(islice(self._rows, self._chance.choice((1, 8, 64, 512))))
        self.taken += bundle
        self.engine.admit(self._pool.codec.encode(bundle), (self.engine.now_s,) * len(bundle))

    def _kill(self) -> None:
        workers = [each for each in self.engine.view().workers if each.pid]
        if workers:
            os.kill(self._chance.choice(workers).pid, signal.SIGKILL)
            self.kills += 1

    def _change(self) -> None:
        if not self.engine.view().switching:
            self.engine.switch(self._chance.choice(self._choices), self._chance.choice(list(SwitchStyle)))

    def _hear(self, until_s: float) -> None:
        for outcome in self.engine.advance(until_s):
            if isinstance(outcome, SwitchEnded):
                self.ended.append(outcome)
            elif isinstance(outcome, Delivered) and outcome.error is not None:
                self.dead_letters += outcome.count
            elif isinstance(outcome, Delivered):
                decoded = self._pool.codec.decode(outcome.payload, outcome.start, outcome.start + outcome.count)
                for value in decoded:
                    self.values += value if isinstance(value, Outputs) else [value]


def choices(stages: Sequence[Stage], workers: int) -> list[Composition]:
    """Bound ones twice as often as dynamic ones, or more."""
    bound = list(generate(stages, max_workers=workers, replicas=range(1, workers + 1)))
    names = [f"Dyn*{workers}({each})" for each in SCHEDULER_NAMES]
    free = [parse(each, stages, name=each) for each in names]
    return [*bound, *free * max(1, len(bound) // (2 * len(free)))]


def run(query: str, seconds: float, kill_every_s: float, workers: int, seed: int = 1) -> Came:
    """Ray must be connected."""
    stream = Stream(query, workers, seed)
    began_s = stream.engine.now_s
    try:
        stream.run(seconds, kill_every_s)
        view, took_s = stream.engine.view(), stream.engine.now_s - began_s
    finally:
        stream.engine.close()
    good = [each for each in stream.ended if each.error is None]
    resizes = sum(each.kind.value == "resize" for each in good)
    return Came(
        items=len(stream.taken), values=len(stream.values), dead_letters=stream.dead_letters, kills=stream.kills,
        restarts=view.restarts, switches=len(good) - resizes, resizes=resizes,
        failed_changes=len(stream.ended) - len(good), moved=stream.moved, seconds=took_s,
        equal=json.dumps(stream.values) == json.dumps(serial(stream.app, stream.taken)),
    )  # fmt: skip


@click.command()
@click.option("--query", type=click.Choice(list(SQL)), default="q1", show_default=True)
@click.option("--seconds", default=180.0, show_default=True)
@click.option("--kill-every", default=4.0, show_default=True, help="Seconds between two kills.")
@click.option("--workers", default=4, show_default=True, help="Of a composition, at most.")
@click.option("--seed", default=1, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(query: str, seconds: float, kill_every: float, workers: int, seed: int, as_json: bool) -> None:
    """Prints what came of a run; exits with 1 where it is not what a plain loop tells."""
    ray_cluster.connect()
    try:
        came = run(query, seconds, kill_every, workers, seed)
    finally:
        ray_cluster.shutdown()
    tell({**metadata(), "query": query, **asdict(came)}, as_json)
    raise SystemExit(not came.equal)


if __name__ == "__main__":
    main()
