"""Compare running sums for each of 1,000 keys with those of peers, over numbers from a source that always has more.

    python -m lab.benchmarks.keyed_sum [--quick] [--json] [--items 4096|auto] [--peers FOLDER]

Ours goes the whole way that a user gets, from source to results, and the output is compared with a plain loop. Peers
are an extra (``pip install 'recompose[peers]'``); one that is not installed is left out, and named.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated

from compositions.model import Composition
from lab.benchmarks.harness import Rows, Table, at_least, main
from lab.benchmarks.light.ours import Items, Peers, Recompose, cpu_table, group
from lab.benchmarks.light.peers import Peer, installed
from lab.benchmarks.light.work import sum_at

ONE, TWO, TOGETHER = "recompose, one worker", "recompose, two replicas", "recompose, a bundle a call"
BYTEWAX, PATHWAY = "bytewax", "pathway"
PEERS = {name: Peer(name, "keyed") for name in (BYTEWAX, PATHWAY)}
GOALS = [
    at_least("items/s", ONE, 400_000),
    at_least("of bytewax", ONE, 0.9, BYTEWAX),
    at_least("times pathway", ONE, 2.0, PATHWAY),
]


def ours(app: str, replicas: int, items: str) -> Recompose:
    composition = Composition(f"{app}*{replicas}", (group(("total",), replicas),))
    return Recompose(composition, items=items, app=app, expected=sum_at)


def measure(
    quick: Annotated[bool, "one short round instead of three long ones"] = False,
    items: Items = "auto",
    peers: Peers = None,
) -> Iterator[Table | Rows]:
    rounds, seconds, count = (1, 2.0, 300_000) if quick else (3, 6.0, 2_000_000)
    there, about = installed(PEERS, peers)
    yield Rows("peers", [about])
    apps = ((ONE, "keyed_sum", 1), (TWO, "keyed_sum", 2), (TOGETHER, "keyed_sums", 1))
    own = {name: ours(app, replicas, items) for name, app, replicas in apps}
    for each in own.values():
        each.verify(50_000)
    measures = {name: partial(each.rate_per_s, seconds) for name, each in own.items()}
    measures |= {name: partial(peer.rate_per_s, count, peers) for name, peer in there.items()}
    goals = [goal for goal in GOALS if goal.peer is None or goal.peer in measures]
    yield Table("running sum by key, saturated source", "items/s", goals).run(measures, rounds)
    yield cpu_table(own)


if __name__ == "__main__":
    main(measure, ray=True)
