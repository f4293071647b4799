"""A running sum for each of 1,000 keys, over numbers from a source that always has more: ours and those of others.

    python -m lab.benchmarks.keyed_sum [--quick] [--json] [--items 4096|auto] [--peers FOLDER]

Ours goes the whole way that a user gets, from source to results, and what comes out is compared with a plain loop.
Peers are an extra (``pip install 'recompose[peers]'``); one that is not there is left out, and said so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from compositions.model import Composition, Group, Pattern
from lab.benchmarks.harness import Goal, Table, options, report
from lab.benchmarks.keyed.work import sum_at
from lab.benchmarks.light.ours import Recompose
from lab.benchmarks.light.peers import Peer
from runtime.pools.ray import cluster

APPS = Path(__file__).parent / "keyed" / "apps"
ONE, TWO, TOGETHER = "recompose, one worker", "recompose, two replicas", "recompose, a bundle a call"
BYTEWAX, PATHWAY = "bytewax", "pathway"
AIM, AIM_PER_S = "aim", 400_000
PEERS = {name: Peer(name, module="lab.benchmarks.keyed.peers") for name in (BYTEWAX, PATHWAY)}
GOALS = [
    Goal("of the aim", ONE, AIM, 1.0, False),
    Goal("of bytewax", ONE, BYTEWAX, 0.9, False),
    Goal("times pathway", ONE, PATHWAY, 2.0, False),
]


def ours(app: str, replicas: int, batching: Mapping[str, object]) -> Recompose:
    pattern = Pattern.PAR if replicas > 1 else Pattern.SEQ
    composition = Composition(f"{app}*{replicas}", (Group(("total",), pattern, replicas),))
    return Recompose(composition, batching=batching, app=APPS / f"{app}.py", expected=sum_at)


def main() -> None:
    given = options(__doc__, "one short round instead of three long ones", peers=True).parse_args()
    rounds, seconds, items = (1, 2.0, 300_000) if given.quick else (3, 6.0, 2_000_000)
    about = {name: peer.about(given.peers) for name, peer in PEERS.items()}
    apps = ((ONE, "keyed_sum", 1), (TWO, "keyed_sum", 2), (TOGETHER, "keyed_sums", 1))
    own = {name: ours(app, replicas, {"items": given.items}) for name, app, replicas in apps}
    measures: dict[str, Callable[[], float]] = {name: partial(each.rate_per_s, seconds) for name, each in own.items()}
    measures |= {
        name: partial(peer.rate_per_s, items, given.peers) for name, peer in PEERS.items() if about[name].there
    }
    measures[AIM] = lambda: float(AIM_PER_S)
    table = Table("running sum by key, saturated source", "items/s", [goal for goal in GOALS if goal.peer in measures])
    cluster.connect()
    try:
        for each in own.values():
            each.verify(50_000)
        table.run(measures, rounds)
    finally:
        cluster.shutdown()
    spent = Table("CPU time of the runner's process for an item", "us")
    spent.rounds = [{name: each.cpu_us[turn] for name, each in own.items()} for turn in range(rounds)]
    report([table, spent], given.json, {"peers": "; ".join(each.text for each in about.values())})


if __name__ == "__main__":
    main()
