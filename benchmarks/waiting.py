"""A stage that waits 30 ms for somebody else, 300 items/s, one worker: its calls overlap, also of bundles of one.

    python -m benchmarks.waiting [--quick] [--json] [--pool local|ray]

The same stage with a concurrency of 1 is what one worker does without.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from apps.contract import App, Options
from benchmarks.harness import Goal, Table, report
from compositions.model import Composition, Group, Stage
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.outcomes import Delivered
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine
from runtime.pools import ray_cluster
from runtime.pools.local import LocalPool, PickleCodec
from runtime.pools.port import Codec, WorkerPool
from runtime.pools.ray_pool import RayPool

WAIT_S = 0.030
OFFERED_PER_S = 300.0
OVERLAPPING = 16
ONE = Composition("one", (Group(("ask",)),))


class Asks(App):
    name = "asks"

    def __init__(self, concurrency: int) -> None:
        super().__init__(Options())
        self.stages = (Stage("ask", concurrency=concurrency),)  # type: ignore[misc]

    async def ask(self, value: int) -> int:
        await asyncio.sleep(WAIT_S)
        return value


@contextmanager
def running(pool_name: str, concurrency: int) -> Iterator[tuple[Engine, Codec]]:
    make_app = partial(Asks, concurrency)
    pool: WorkerPool = LocalPool(make_app) if pool_name == "local" else RayPool(make_app, ("ask",))
    codec: Codec = pool.codec if isinstance(pool, RayPool) else PickleCodec()
    settings = DispatcherSettings(spares=0, overload="shed", buffer_items=32)
    engine = Engine(Dispatcher(make_app().stages, ONE, settings), pool)
    engine.start()
    try:
        engine.admit(codec.encode([-1]), (engine.now_s,))
        while not engine.idle:
            engine.advance(engine.now_s + 0.1)
        yield engine, codec
    finally:
        engine.close()


def offered(pool_name: str, concurrency: int, seconds: float, latencies_s: list[float]) -> float:
    """Delivered items a second; the last half of them, when the stream has settled, gives the latencies."""
    with running(pool_name, concurrency) as (engine, codec):
        began_s, admitted, took = engine.now_s, 0, list[Delivered]()
        while (now_s := engine.now_s) < began_s + seconds:
            while (due_s := began_s + admitted / OFFERED_PER_S) <= now_s:
                engine.admit(codec.encode([admitted]), (due_s,))
                admitted += 1
            took += [each for each in engine.advance(due_s) if isinstance(each, Delivered)]
        latencies_s += [each.at_s - each.arrived_s[0] for each in took[len(took) // 2 :]]
        return len(took) / seconds


def measure(pool_name: str, rounds: int, seconds: float) -> tuple[list[Table], dict[str, str]]:
    overlapping, single = f"{OVERLAPPING} calls at a time", "one call at a time"
    goal = Goal("of what is offered", overlapping, "offered", 0.98, False)
    table = Table(f"{WAIT_S * 1e3:g} ms of waiting, one worker, {pool_name}, bundles of one", "items/s", [goal])
    latencies_s: list[float] = []
    contenders = {
        overlapping: partial(offered, pool_name, OVERLAPPING, seconds, latencies_s),
        single: partial(offered, pool_name, 1, seconds, []),
        "offered": lambda: OFFERED_PER_S,
    }
    table.run(contenders, rounds)
    p50, p95 = statistics.median(latencies_s), statistics.quantiles(latencies_s, n=20)[-1]
    return [table], {"latency of the overlapping": f"p50 {p50 * 1e3:.1f} ms, p95 {p95 * 1e3:.1f} ms"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="1 round of 3 s each instead of 3 of 10 s")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument("--pool", choices=("local", "ray"), default="ray")
    given = parser.parse_args()
    if given.pool == "ray":
        ray_cluster.connect()
    try:
        tables, more = measure(given.pool, *((1, 3.0) if given.quick else (3, 10.0)))
    finally:
        if given.pool == "ray":
            ray_cluster.shutdown()
    report(tables, given.json, more)


if __name__ == "__main__":
    main()
