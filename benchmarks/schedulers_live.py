"""Figure 8 of Prasaad et al. on real cores: schedulers of dynamic compositions on the queries, on threads or on Ray.

    python -m benchmarks.schedulers_live [--pool ray] [--workers 2] [--seconds 2] [--rounds 3] [--query q1] [--json]

Rows come as fast as they are taken, in bundles of 64, through one run a query; the schedulers take turns in it, so that
a slow minute hits all of them. Told are medians of the rounds: items a second, and what an item took. Beside them a
worker for each stage, which is as many workers as there are stages.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import click

from apps.registry import create
from benchmarks.harness import metadata
from benchmarks.on_ray import ray_if
from compositions.dynamic import SCHEDULER_NAMES
from compositions.model import Composition, all_sequential
from compositions.notation import parse
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.outcomes import Delivered, SwitchEnded
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine
from runtime.pools.local import LocalPool, PickleCodec

BUNDLE, PATIENCE_S = 64, 120.0
QUERIES = ("q1", "q2", "q3", "q4", "q15")
BOUND = "a worker a stage"
OPTIONS = {"rows": 20_000_000, "hours": 99_000.0, "items": 300, "users": 200, "tick_s": 86_400}


@dataclass(frozen=True)
class Segment:
    """Some seconds of a run in one composition."""

    items_per_s: float
    latency_ms: float


class Live:
    """A query that runs, in one composition after the other."""

    def __init__(self, query: str, pool: str, first: Composition) -> None:
        make_app = partial(create, f"tpcxbb_{query}", OPTIONS)
        app = make_app()
        self._codec: Any
        if pool == "ray":
            from runtime.pools.ray_pool import RayPool  # free-threaded Python has no Ray, but threads

            workers: Any = RayPool(make_app, [stage.name for stage in app.stages])
            self._codec = workers.codec
        else:
            workers, self._codec = LocalPool(make_app), PickleCodec()
        dispatcher = Dispatcher(app.stages, first, DispatcherSettings(), self._codec.size_bytes)
        self.engine = Engine(dispatcher, workers)
        self.engine.start()
        self._rows: Iterator[Any] = iter(app.items(None))
        self._ended = 0
        self._left: list[tuple[float, tuple[float, ...]]] = []

    def segment(self, composition: Composition, seconds: float) -> Segment:
        """Its items begin to count when the switch is over. Raises: RuntimeError when that does not come."""
        ended, give_up_s = self._ended, self.engine.now_s + PATIENCE_S
        self.engine.switch(composition)
        while self._ended == ended:
            if self.engine.now_s > give_up_s:
                raise RuntimeError(f"{composition.name} did not come up")
            self._turn()
        self._left.clear()
        began_s = self.engine.now_s
        while self.engine.now_s < began_s + seconds:
            self._turn()
        took_s = self.engine.now_s - began_s
        late_s = [at_s - arrived for at_s, arrived_s in self._left for arrived in arrived_s]
        return Segment(len(late_s) / took_s, 1e3 * statistics.median(late_s or [float("inf")]))

    def _turn(self) -> None:
        if self.engine.has_room:
            bundle = list(itertools.islice(self._rows, BUNDLE))
            self.engine.admit(self._codec.encode(bundle), (self.engine.now_s,) * len(bundle))
        for outcome in self.engine.advance(self.engine.now_s + (0.0 if self.engine.has_room else 0.05)):
            if isinstance(outcome, Delivered):
                assert outcome.error is None, outcome.error
                self._left.append((outcome.at_s, outcome.arrived_s))
            self._ended += isinstance(outcome, SwitchEnded)


def run(query: str, pool: str, workers: int, seconds: float, rounds: int) -> dict[str, Segment]:
    """Medians by scheduler."""
    stages = create(f"tpcxbb_{query}", OPTIONS).stages
    free = [parse(f"Dyn*{workers}({name})", stages, name=name) for name in SCHEDULER_NAMES]
    every = [*free, all_sequential(stages, BOUND)]
    found: dict[str, list[Segment]] = {each.name: [] for each in every}
    live = Live(query, pool, all_sequential(stages))
    try:
        for number in range(rounds):
            for each in every[number % len(every) :] + every[: number % len(every)]:
                found[each.name].append(live.segment(each, seconds))
    finally:
        live.engine.close()
    return {name: _median(segments) for name, segments in found.items()}


def _median(segments: Sequence[Segment]) -> Segment:
    rates, late = zip(*((each.items_per_s, each.latency_ms) for each in segments), strict=True)
    return Segment(statistics.median(rates), statistics.median(late))


@click.command()
@click.option("--query", "queries", type=click.Choice(QUERIES), multiple=True, help="All, unless some are named.")
@click.option("--pool", type=click.Choice(["local", "ray"]), default="local", show_default=True)
@click.option("--workers", default=2, show_default=True)
@click.option("--seconds", default=2.0, show_default=True, help="In each composition and round.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(queries: tuple[str, ...], pool: str, workers: int, seconds: float, rounds: int, as_json: bool) -> None:
    """Prints items a second and the median latency, by query and scheduler."""
    with ray_if(pool == "ray"):
        found = {query: run(query, pool, workers, seconds, rounds) for query in queries or QUERIES}
    about = {**metadata(), "pool": pool, "workers": str(workers)}
    if as_json:
        plain = {query: {name: vars(each) for name, each in by.items()} for query, by in found.items()}
        json.dump({**about, **plain}, sys.stdout, indent=1)
        return
    for name, value in about.items():
        print(f"{name}: {value}")
    for query, by in found.items():
        told = ", ".join(f"{name} {each.items_per_s:,.0f}/s {each.latency_ms:.1f} ms" for name, each in by.items())
        print(f"{query}: {told}")


if __name__ == "__main__":
    main()
