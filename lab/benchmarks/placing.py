"""Measure the placement of a thousand workers on a hundred nodes.

    python -m lab.benchmarks.placing [--clusters 20] [--rounds 3] [--json]

The contract: at most 50 ms. Clusters and shapes are random, by seed. CPU time is measured, the least of the rounds for
each cluster: placing waits for nothing. "Fits" is about what the cluster holds, "too many" is four times that.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from time import process_time

from compositions.resources import Need
from lab.benchmarks.harness import Rounds, Rows, main
from runtime.placement.cluster import Amounts, Cluster, Node
from runtime.placement.place import Shape, place

GB = 10**9
SHARES = (0.1, 0.2, 0.25, 0.3, 0.5, 0.6, 0.75, 1, 2)
WORKERS, NODES = 1000, 100
MOST = {"fits": 100, "too many": 400}
LIMIT_MS = 50.0


def a_cluster(rng: random.Random, nodes: int) -> Cluster:
    """Return nodes of up to four kinds in two zones; some have decoders."""
    kinds = [
        Amounts(
            rng.choice((1, 2, 4, 8, 16, 64)),
            rng.choice((0, 0, 1, 2, 4, 8)),
            rng.choice((4, 8, 32, 64, 128)) * GB,
            {"decoder": rng.choice((1, 2, 4))} if rng.random() < 0.3 else {},
        )
        for _ in range(rng.randint(1, 4))
    ]
    return Cluster(tuple(Node(f"n{at}", rng.choice(kinds), labels={"zone": rng.choice("ab")}) for at in range(nodes)))


def some_shapes(rng: random.Random, cluster: Cluster, most: int) -> list[Shape]:
    """Return up to eight shapes that reserve CPUs, shares of GPUs, memory and decoders."""
    shares = SHARES if any(node.has.gpus for node in cluster.nodes) else (0,)
    return [
        Shape(
            f"s{at}",
            Need(
                rng.choice((0.1, 0.5, 1, 1, 2, 4)),
                rng.choice((0, *shares)),
                rng.choice((0, 1, 2, 4, 8, 16)) * GB,
                {"decoder": 1.0} if rng.random() < 0.15 else {},
                {"zone": "a"} if rng.random() < 0.15 else {},
            ),
            rng.randint(1, most),
        )
        for at in range(rng.randint(1, 8))
    ]


def measure(clusters: int = 20, rounds: Rounds = 3) -> Iterator[Rows]:
    rows = []
    for demand, most in MOST.items():
        taken_ms = [min(_placing_ms(*_problem(seed, most)) for _ in range(rounds)) for seed in range(clusters)]
        rows.append({"demand": demand, "median": median(taken_ms), "most": max(taken_ms)})
    checks = {f"at most {LIMIT_MS:g} ms": all(row["most"] <= LIMIT_MS for row in rows)}
    yield Rows(f"CPU to place {WORKERS} workers on {NODES} nodes [ms]", rows, checks)


def _problem(seed: int, most: int) -> tuple[Cluster, list[Shape]]:
    rng = random.Random(seed)
    cluster = a_cluster(rng, NODES)
    shapes = some_shapes(rng, cluster, most)
    total = sum(shape.count for shape in shapes)
    return cluster, [replace(shape, count=max(1, shape.count * WORKERS // total)) for shape in shapes]


def _placing_ms(cluster: Cluster, shapes: Sequence[Shape]) -> float:
    began_s = process_time()
    place(cluster, shapes, {})
    return 1e3 * (process_time() - began_s)


if __name__ == "__main__":
    main(measure)
