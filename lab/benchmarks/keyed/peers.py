"""Peers at a running sum by key, each in a process of its own.

python -m lab.benchmarks.keyed.peers bytewax 2000000
"""

from __future__ import annotations

from itertools import islice
from time import perf_counter
from typing import Any

from lab.benchmarks.keyed.work import key_of, verify
from lab.benchmarks.light.peers import Work, serve
from lab.benchmarks.light.work import BUNDLE


def bytewax(items: int, workers: int, loops: int) -> float:
    """A source that gives bundles of 512, a key, which must be text here, and a map with a state. One worker."""
    from bytewax import operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.inputs import DynamicSource, StatelessSourcePartition
    from bytewax.outputs import DynamicSink, StatelessSinkPartition
    from bytewax.testing import run_main

    sums: dict[str, int] = {}

    class Numbers(StatelessSourcePartition[int]):
        def __init__(self) -> None:
            self._values = iter(range(items))

        def next_batch(self) -> list[int]:
            if batch := list(islice(self._values, BUNDLE)):
                return batch
            raise StopIteration

    class Source(DynamicSource[int]):
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Numbers:
            return Numbers()

    class Last(StatelessSinkPartition[tuple[str, int]]):
        def write_batch(self, items: list[tuple[str, int]]) -> None:
            sums.update(items)

    class Sink(DynamicSink[tuple[str, int]]):
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Last:
            return Last()

    def total(state: int | None, value: int) -> tuple[int, int]:
        state = (state or 0) + value
        return state, state

    flow = Dataflow("keyed")
    keyed = op.key_on("key", op.input("in", flow, Source()), lambda value: str(key_of(value)))
    op.output("out", op.stateful_map("total", keyed, total), Sink())
    began_s = perf_counter()
    run_main(flow)
    took_s = perf_counter() - began_s
    verify({int(key): total for key, total in sums.items()}, items, "bytewax")
    return items / took_s


def pathway(items: int, workers: int, loops: int) -> float:
    """A Python connector, groups by a column, and their sums; a callback gets those that changed. It tells of a key
    once a commit, not once an item, which is less work. Starting up included."""
    import pathway as pw

    sums: dict[int, int] = {}

    class Numbers(pw.io.python.ConnectorSubject):
        def run(self) -> None:
            for value in range(items):
                self.next(key=key_of(value), value=value)

    class Schema(pw.Schema):
        key: int
        value: int

    def on_change(key: Any, row: dict[str, int], time: int, is_addition: bool) -> None:
        if is_addition:
            sums[row["key"]] = row["total"]

    table = pw.io.python.read(Numbers(), schema=Schema)
    totals = table.groupby(pw.this.key).reduce(pw.this.key, total=pw.reducers.sum(pw.this.value))
    pw.io.subscribe(totals, on_change)
    began_s = perf_counter()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    took_s = perf_counter() - began_s
    verify(sums, items, "pathway")
    return items / took_s


PEERS: dict[str, Work] = {"bytewax": bytewax, "pathway": pathway}

if __name__ == "__main__":
    serve(PEERS)
