"""The price of a hop: four empty sequential stages, one item at a time and pipelined, small items and video frames.

python -m benchmarks.hop_latency [--quick] [--json]
"""

from __future__ import annotations

from functools import partial

from benchmarks.contenders import ActorChain, CompiledGraph, Contender, ProcessPool, Recompose, p50_ms, rate_per_s
from benchmarks.harness import Goal, Table
from benchmarks.on_ray import compare
from benchmarks.workloads import FRAME, SMALL, Empty, identity
from compositions.model import all_sequential

OURS, CHAIN, GRAPH, POOL = "recompose", "ray actor calls, chained", "ray compiled graph", "process pool, imap a stage"


def contenders() -> dict[str, Contender]:
    stages = len(Empty.stages)
    return {
        OURS: Recompose(Empty, Empty.stages, all_sequential(Empty.stages)),
        CHAIN: ActorChain(stages),
        GRAPH: CompiledGraph(stages),
        POOL: ProcessPool(stages, [identity] * stages),
    }


def measure(rounds: int, items: int) -> list[Table]:
    """``items`` a round for the fast ones; the actor chain does a fifth of them."""
    small = Table(
        "one item at a time, small item, p50",
        "ms",
        [
            Goal("of the actor chain", OURS, CHAIN, 1 / 10, True),
            Goal("of the compiled graph", OURS, GRAPH, 1.0, True),
        ],
    )
    frame = Table("one item at a time, 360 KB frame, p50", "ms", [Goal("of the actor chain", OURS, CHAIN, 1 / 8, True)])
    rate = Table("pipelined, small item", "items/s", [Goal("times the actor chain", OURS, CHAIN, 5.0, False)])
    frames = Table("pipelined, 360 KB frame", "items/s")
    them = contenders()
    try:
        share = {name: items // 5 if name == CHAIN else items for name in them}
        small.run({name: partial(p50_ms, one, SMALL, share[name]) for name, one in them.items()}, rounds)
        frame.run({name: partial(p50_ms, one, FRAME, share[name] // 2) for name, one in them.items()}, rounds)
        rate.run({name: partial(rate_per_s, one, [SMALL] * (share[name] * 4)) for name, one in them.items()}, rounds)
        frames.run({name: partial(rate_per_s, one, [FRAME] * share[name]) for name, one in them.items()}, rounds)
    finally:
        for one in them.values():
            one.close()
    return [small, frame, rate, frames]


if __name__ == "__main__":
    compare(__doc__, measure, quick=(3, 150), long=(9, 600))
