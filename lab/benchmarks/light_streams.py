"""Compare light streams with those of peers: four trivial stages over numbers from a source that always has more.

    python -m lab.benchmarks.light_streams [--quick] [--json] [--items 512|auto] [--peers FOLDER]

Ours goes the whole way that a user gets, from source to results, and the output is compared with a plain loop. Peers
are an extra (``pip install 'recompose[peers]'``); one that is not installed is left out, and named.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated

from lab.benchmarks.harness import Rows, Table, at_least, main
from lab.benchmarks.light.ours import Items, Peers, Recompose, cpu_table, in_groups, merged
from lab.benchmarks.light.peers import Peer, installed
from lab.benchmarks.light.work import loops_for

MERGED, GROUPS = "recompose, all merged", "recompose, four groups"
BYTEWAX, PATHWAY = "bytewax", "pathway"
ONE, TWO = "recompose, one worker", "recompose, two replicas"
STAGE_US = 5.0
GOALS = [
    at_least("merged, of bytewax", MERGED, 0.5, BYTEWAX),
    at_least("four groups, times pathway", GROUPS, 4.0, PATHWAY),
]
PEERS = {
    BYTEWAX: Peer("bytewax"),
    "bytewax, two workers": Peer("bytewax", workers=2),
    PATHWAY: Peer("pathway"),
}


def measure(
    quick: Annotated[bool, "one short round instead of three long ones"] = False,
    items: Items = "auto",
    peers: Peers = None,
) -> Iterator[Table | Rows]:
    rounds, seconds, fast, middling, slow = (
        (1, 2.0, 500_000, 200_000, 20_000) if quick else (3, 6.0, 4_000_000, 1_000_000, 100_000)
    )
    there, about = installed(PEERS, peers)
    yield Rows("peers", [about])
    for composition in (merged(), in_groups(), merged(2)):
        Recompose(composition, items=items).verify(slow)
    ours = {MERGED: Recompose(merged(), items=items), GROUPS: Recompose(in_groups(), items=items)}
    measures = {name: partial(one.rate_per_s, seconds) for name, one in ours.items()}
    for name, peer in there.items():
        measures[name] = partial(peer.rate_per_s, middling if name == PATHWAY else fast, peers)
    goals = [goal for goal in GOALS if goal.peer in measures]
    yield Table("four trivial stages, numbers, saturated source", "items/s", goals).run(measures, rounds)
    yield cpu_table(ours)

    loops = loops_for(STAGE_US)
    two = {
        ONE: partial(Recompose(merged(), loops, items).rate_per_s, seconds),
        TWO: partial(Recompose(merged(2), loops, items).rate_per_s, seconds),
    }
    title = f"the same, one stage with {STAGE_US:g} µs of CPU ({loops} loops)"
    yield Table(title, "items/s", [at_least("two replicas, times one", TWO, 1.5, ONE)]).run(two, rounds)


if __name__ == "__main__":
    main(measure, ray=True)
