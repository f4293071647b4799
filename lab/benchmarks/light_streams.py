"""Light streams: four trivial stages over numbers from a source that always has more, ours and those of others.

    python -m lab.benchmarks.light_streams [--quick] [--json] [--items 512|auto] [--peers FOLDER]

Ours goes the whole way that a user gets, from source to results, and what comes out is compared with a plain loop.
Peers are an extra (``pip install 'recompose[peers]'``); one that is not there is left out, and said so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from lab.benchmarks.harness import Goal, Table, options, report
from lab.benchmarks.light.ours import Recompose, in_groups, merged
from lab.benchmarks.light.peers import Peer
from lab.benchmarks.light.work import loops_for
from runtime.pools.ray import cluster

MERGED, GROUPS = "recompose, all merged", "recompose, four groups"
BYTEWAX, BYTEWAX_2 = "bytewax", "bytewax, two workers"
PATHWAY, IMAP = "pathway", "multiprocessing, imap by 512"
ONE, TWO = "recompose, one worker", "recompose, two replicas"
IMAP_ONE, IMAP_TWO = "multiprocessing, one process", "multiprocessing, two processes"
STAGE_US = 5.0
LIGHT = [
    Goal("merged, of bytewax", MERGED, BYTEWAX, 0.5, False),
    Goal("four groups, times pathway", GROUPS, PATHWAY, 4.0, False),
]
PEERS = {
    BYTEWAX: Peer("bytewax"),
    BYTEWAX_2: Peer("bytewax", workers=2),
    PATHWAY: Peer("pathway"),
    IMAP: Peer("multiprocessing"),
}
Measures = Mapping[str, Callable[[], float]]


class Scale:
    """How long each is measured: seconds for what runs on, items for what is given so many."""

    def __init__(self, quick: bool) -> None:
        self.rounds = 1 if quick else 3
        self.seconds = 2.0 if quick else 6.0
        self.fast = 500_000 if quick else 4_000_000
        self.middling = 200_000 if quick else 1_000_000
        self.slow = 20_000 if quick else 100_000


def light(scale: Scale, batching: Mapping[str, object], there: Mapping[str, Peer], folder: Path | None) -> list[Table]:
    ours = {MERGED: Recompose(merged(), batching=batching), GROUPS: Recompose(in_groups(), batching=batching)}
    measures = {name: partial(one.rate_per_s, scale.seconds) for name, one in ours.items()}
    for name, peer in there.items():
        measures[name] = partial(peer.rate_per_s, scale.middling if name == PATHWAY else scale.fast, folder)
    goals = [goal for goal in LIGHT if goal.peer in measures]
    table = Table("four trivial stages, numbers, saturated source", "items/s", goals)
    table.run(measures, scale.rounds)
    spent = Table("CPU time of the runner's process for an item", "us")
    spent.rounds = [{name: one.cpu_us[turn] for name, one in ours.items()} for turn in range(scale.rounds)]
    return [table, spent]


def replicas(scale: Scale, batching: Mapping[str, object]) -> Table:
    loops = loops_for(STAGE_US)
    measures: Measures = {
        ONE: partial(Recompose(merged(), loops, batching).rate_per_s, scale.seconds),
        TWO: partial(Recompose(merged(2), loops, batching).rate_per_s, scale.seconds),
        IMAP_ONE: partial(Peer("multiprocessing", 1, loops).rate_per_s, scale.fast // 10, None),
        IMAP_TWO: partial(Peer("multiprocessing", 2, loops).rate_per_s, scale.fast // 10, None),
    }
    goals = [Goal("two replicas, times one", TWO, ONE, 1.5, False)]
    table = Table(f"the same, one stage with {STAGE_US:g} µs of CPU ({loops} loops)", "items/s", goals)
    table.run(measures, scale.rounds)
    return table


def main() -> None:
    given = options(__doc__, "one short round instead of three long ones", peers=True).parse_args()
    scale, batching = Scale(given.quick), {"items": given.items}
    about = {peer.name: peer.about(given.peers) for peer in PEERS.values()}
    there = {name: peer for name, peer in PEERS.items() if about[peer.name].there}
    cluster.connect()
    try:
        for composition in (merged(), in_groups(), merged(2)):
            Recompose(composition, batching=batching).verify(scale.slow)
        tables = [*light(scale, batching, there, given.peers), replicas(scale, batching)]
    finally:
        cluster.shutdown()
    report(tables, given.json, {"peers": "; ".join(each.text for each in about.values())})


if __name__ == "__main__":
    main()
