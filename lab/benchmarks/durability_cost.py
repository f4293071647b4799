"""Measure the cost of durability, on local workers.

    python -m lab.benchmarks.durability_cost [--items 20000] [--rounds 5] [--paced] [--json]

The same replayed items go through the same run with each kind of durability, in turn and repeatedly. It measures
CPU time of the process per item, which other programs on the machine change less than the elapsed time, and items/s.
With ``--paced`` the input is 1,000 items/s one by one and 100,000 items/s in bundles, instead of as fast as the run
accepts it; measured are items/s and the p95 of latency, which ends when results can be seen. ``unsynced`` is
exactly-once whose commits do not wait for the disk. The time of a write of 4 KB and its fsync is printed first: no
result can be seen earlier. The process is settled, as a runner's is.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Annotated, Any, NamedTuple

from apps import registry
from apps.contract import App
from compositions.model import Stage
from lab.benchmarks.harness import Rounds, Rows, main
from lab.experiments.runs import to_the_end
from runtime.housekeeping import settle
from service.schemas.spec import BatchingSpec, InputSpec, RunSpec, SourceSpec, new_run

PACED = ((1, 6_000, 1_000.0), (512, 600_000, 100_000.0))
"""Bundle size, items, items/s."""
KINDS: Mapping[str, Mapping[str, Any]] = {
    "none": {},
    "restart": {"durability": "restart"},
    "exactly-once": {"durability": "exactly-once"},
    "unsynced": {"durability": "exactly-once", "journal_sync": False},
}


class Measured(NamedTuple):
    wall_s: float
    """Per item."""
    cpu_s: float
    """Per item."""
    p95_ms: float
    """Of the run's last seconds; NaN if there is none."""


class Light(App):
    """A stage that does next to nothing."""

    name = "light"
    stages = (Stage("same"),)
    count = 0

    def items(self, path: Path | None) -> Iterator[Any]:
        return iter(range(self.count))

    def same(self, value: int) -> int:
        return value


def run(kind: str, items: int, bundle: int, folder: str, rate_per_s: float | None = None) -> Measured:
    Light.count = items
    spec = RunSpec(
        app="light", run=new_run(), source=SourceSpec(kind="replay", loop=False), batching=BatchingSpec(items=bundle),
        input=InputSpec(rate_per_s=rate_per_s), journals=folder, pool="local", **KINDS[kind],
    )  # fmt: skip
    ended = to_the_end(spec, limit_s=600.0)
    p95_ms = ended.status.latency_ms.p95 if ended.status.latency_ms is not None else None
    return Measured(ended.wall_s / items, ended.cpu_s / items, math.nan if p95_ms is None else p95_ms)


def measure(
    items: Annotated[int, "of the runs with one item per bundle"] = 20_000,
    rounds: Rounds = 5,
    paced: Annotated[bool, "at given rates instead of as fast as items are accepted"] = False,
) -> Iterator[Rows]:
    yield Rows("a write of 4 KB and its fsync", [disk()])
    settle()
    registry.create = lambda *_: Light()  # type: ignore[assignment]  # the app of this measurement alone
    for bundle, count, rate_per_s in PACED if paced else ((1, items, None), (512, items * 20, None)):
        measured: dict[str, list[Measured]] = {kind: [] for kind in KINDS}
        with TemporaryDirectory() as folder:
            for _ in range(rounds):
                for kind in KINDS:
                    measured[kind].append(run(kind, count, bundle, folder, rate_per_s))
        seen = {kind: medians(runs) for kind, runs in measured.items()}
        plain = seen["none"]
        yield Rows(f"bundles of {bundle}, medians", [
            {
                "durability": kind, "items/s": 1 / each.wall_s, "of none": plain.wall_s / each.wall_s,
                "us of CPU per item": each.cpu_s * 1e6, "CPU of none": each.cpu_s / plain.cpu_s, "p95 ms": each.p95_ms,
            } for kind, each in seen.items()
        ])  # fmt: skip


def disk(writes: int = 200) -> dict[str, float]:
    with TemporaryDirectory() as folder, open(Path(folder) / "log", "wb", buffering=0) as file:
        took_ms = []
        for _ in range(writes):
            began_s = monotonic()
            file.write(bytes(4096))
            os.fsync(file.fileno())
            took_ms.append((monotonic() - began_s) * 1e3)
    return {"median ms": statistics.median(took_ms), "p95 ms": statistics.quantiles(took_ms, n=20)[-1]}


def medians(runs: Sequence[Measured]) -> Measured:
    return Measured(*(statistics.median(each) for each in zip(*runs, strict=True)))


if __name__ == "__main__":
    main(measure)
