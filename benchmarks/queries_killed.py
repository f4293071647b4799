"""A query on Ray for minutes, while workers get SIGKILL, partitions move and the composition changes each second: what
comes out is what a plain loop over the same items tells, byte for byte, and what DuckDB finds in the same rows.

    python -m benchmarks.queries_killed [--query q1] [--portion 0] [--seconds 180] [--kill-every 4] [--workers 4]

Rows come as fast as they are taken, or ``--rate`` a second, in bundles of 1 to 512; with ``--portion`` so many of them
in an item, for the Arrow stages, and the bundles are of one item to eight. Each second the composition is to become
another, drawn from all of so many workers and from ``Dyn`` with each scheduler; a resize where only numbers differ,
else a switch. One that still waits for workers gives way to the next.
"""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import click

from apps.contract import Outputs
from benchmarks.harness import metadata, tell
from benchmarks.matrix.beginning import Beginning
from benchmarks.matrix.plain import serial
from benchmarks.matrix.streams import READERS, SQL, brought
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
SPARES = 4
"""Workers beyond those of a composition: on a busy machine one takes longer to start than the next lives."""
ROWS, PORTIONS = (1, 8, 64, 512), (1, 2, 8)
"""In a bundle."""


@dataclass(frozen=True)
class Came:
    """What came of a run."""

    items: int
    rows: int
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
    asked: int
    """Changes of the composition, one a second."""
    called_off: int
    """Of them, before anything moved: the next was asked for."""
    change_s: float
    """The median of those that were made, from the request to the end; ``workers_s`` of it for workers to be there."""
    workers_s: float
    longest_change_s: float
    equal: bool
    """To a plain loop."""
    as_duckdb: bool


class Watched(RayPool):
    """Counts the partitions that a task brings with their states."""

    moved = 0

    def send(self, worker: WorkerId, tasks: Sequence[Task]) -> None:
        self.moved += brought(tasks)
        super().send(worker, tasks)


class Stream:
    """A query on Ray, driven as the runner does."""

    def __init__(self, beginning: Beginning, workers: int, seed: int, rate_per_s: float) -> None:
        self.beginning, self._rate_per_s = beginning, rate_per_s
        stages = beginning.app.stages
        self._chance = random.Random(seed)
        self._choices = choices(stages, workers)
        self._pool = Watched(beginning.make, [stage.name for stage in stages])
        settings = DispatcherSettings(buffer_items=2048, spares=SPARES)
        dispatcher = Dispatcher(stages, self._choices[0], settings, self._pool.codec.size_bytes)
        self.engine = Engine(dispatcher, self._pool)
        self.values: list[Any] = []
        self.dead_letters = self.kills = self.asked = 0
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
        begin_s = self.engine.now_s
        end_s, kill_s, change_s = begin_s + seconds, begin_s + kill_every_s, begin_s + EVERY_S
        open_ = True
        while (now_s := self.engine.now_s) < end_s + PATIENCE_S and (open_ or not self.engine.idle):
            if now_s < end_s and self._due(now_s - begin_s):
                self._admit()
            elif now_s >= end_s and open_ and self.engine.has_room:
                open_ = False
                self._offer([self.beginning.end()])
            if open_ and now_s >= kill_s:
                kill_s = now_s + kill_every_s
                self._kill()
            if now_s >= change_s:
                change_s = now_s + EVERY_S
                self._change()
            self._hear(now_s if self._due(now_s - begin_s) and now_s < end_s else now_s + 0.02)

    def _due(self, since_s: float) -> bool:
        late = not self._rate_per_s or self.beginning.rows < self._rate_per_s * since_s
        return late and self.engine.has_room

    def _admit(self) -> None:
        self._offer(self.beginning.take(self._chance.choice(PORTIONS if self.beginning.portion else ROWS)))

    def _offer(self, bundle: list[Any]) -> None:
        self.engine.admit(self._pool.codec.encode(bundle), (self.engine.now_s,) * len(bundle))

    def _kill(self) -> None:
        workers = [each for each in self.engine.view().workers if each.pid]
        if workers:
            os.kill(self._chance.choice(workers).pid, signal.SIGKILL)
            self.kills += 1

    def _change(self) -> None:
        """Unless the one before is on its way: then its old composition is not empty."""
        self.asked += 1
        view = self.engine.view()
        if not view.switching or view.preparing:
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


def run(stream: Stream, seconds: float, kill_every_s: float) -> Came:
    """Ray must be connected."""
    began_s = stream.engine.now_s
    try:
        stream.run(seconds, kill_every_s)
        view, took_s = stream.engine.view(), stream.engine.now_s - began_s
    finally:
        stream.engine.close()
    good = [each for each in stream.ended if each.error is None][1:]  # the first is the start
    resizes = sum(each.kind.value == "resize" for each in good)
    called_off = sum(each.called_off for each in stream.ended)
    took = [each.at_s - each.requested_s for each in good]
    waited = [(each.handed_over_s or each.at_s) - each.requested_s for each in good]
    beginning = stream.beginning
    wanted = serial(beginning.app, beginning.taken)
    return Came(
        items=len(beginning.taken), rows=beginning.rows, values=len(stream.values), dead_letters=stream.dead_letters,
        kills=stream.kills, restarts=view.restarts, switches=len(good) - resizes, resizes=resizes,
        failed_changes=len(stream.ended) - 1 - len(good) - called_off, moved=stream.moved, seconds=took_s,
        asked=stream.asked, called_off=called_off, change_s=median(took), workers_s=median(waited),
        longest_change_s=max(took), equal=json.dumps(stream.values) == json.dumps(wanted),
        as_duckdb=READERS[beginning.query](stream.values) == beginning.found(),
    )  # fmt: skip


@click.command()
@click.option("--query", type=click.Choice(list(SQL)), default="q1", show_default=True)
@click.option("--portion", default=0, show_default=True, help="Rows in an item, for Arrow stages; 0: items are rows.")
@click.option("--rate", default=0.0, show_default=True, help="Rows a second; 0: as they are taken.")
@click.option("--seconds", default=180.0, show_default=True)
@click.option("--kill-every", default=4.0, show_default=True, help="Seconds between two kills.")
@click.option("--workers", default=4, show_default=True, help="Of a composition, at most.")
@click.option("--seed", default=1, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(
    query: str, portion: int, rate: float, seconds: float, kill_every: float, workers: int, seed: int, as_json: bool
) -> None:
    """Prints what came of a run; exits with 1 where it is not what a plain loop tells, or DuckDB finds."""
    ray_cluster.connect()
    try:
        came = run(Stream(Beginning(query, portion), workers, seed, rate), seconds, kill_every)
    finally:
        ray_cluster.shutdown()
    tell({**metadata(), "query": query, "portion": portion, **asdict(came)}, as_json)
    raise SystemExit(not (came.equal and came.as_duckdb))


if __name__ == "__main__":
    main()
