"""The price of being adaptive: the synthetic app, 24 ms of CPU an item, against a process pool of two.

    python -m benchmarks.pool_throughput [--quick] [--json]

``Par(f1,f2,f3)*2`` is what a process pool of two does. Composition 1 has three sequential stages of 8 ms, so its bound
is the cores: ``min(1/8 ms, cores/24 ms)`` items per second.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial

from apps.synthetic import Synthetic
from benchmarks.contenders import Contender, ProcessPool, Recompose, rate_per_s
from benchmarks.harness import Goal, Table, cores, report
from benchmarks.workloads import all_of_synthetic
from compositions.model import Composition, Group, Pattern, all_sequential
from runtime.pools import ray_cluster

PAR, SEQ, POOL, BOUND = "Par(f1,f2,f3)*2", "composition 1 (Seq-Seq-Seq)", "process pool of two", "bound by two cores"
ITEM_CPU_S = 0.024
STAGE_S = ITEM_CPU_S / 3


def contenders() -> Mapping[str, Contender]:
    stages = Synthetic.stages
    par = Composition("par", (Group(tuple(stage.name for stage in stages), Pattern.PAR, 2),))
    return {
        PAR: Recompose(Synthetic, stages, par),
        SEQ: Recompose(Synthetic, stages, all_sequential(stages)),
        POOL: ProcessPool(2, [all_of_synthetic]),
    }


def bound_per_s() -> float:
    """Of composition 1: its slowest stage, or what two cores (or the one there is) can compute."""
    return min(1 / STAGE_S, min(2, cores()) / ITEM_CPU_S)


def measure(rounds: int, items: int) -> Table:
    goals = [
        Goal("of the process pool", PAR, POOL, 0.95, False),
        Goal("composition 1, of the bound", SEQ, BOUND, 0.90, False),
        Goal("composition 1, of the process pool", SEQ, POOL, 0.90, False),
    ]
    table = Table("synthetic, 24 ms of CPU an item", "items/s", goals)
    values = list(Synthetic(Synthetic.options_model(items=items)).items(None))  # type: ignore[call-arg]
    them = contenders()
    try:
        for one in them.values():
            one.stream(values[:8])
        measures = {name: partial(rate_per_s, one, values) for name, one in them.items()}
        table.run({**measures, BOUND: bound_per_s}, rounds)
    finally:
        for one in them.values():
            one.close()
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="3 rounds of 100 items instead of 9 of 400")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    arguments = parser.parse_args()
    ray_cluster.connect()
    try:
        report([measure(3, 100) if arguments.quick else measure(9, 400)], arguments.json)
    finally:
        ray_cluster.shutdown()


if __name__ == "__main__":
    main()
