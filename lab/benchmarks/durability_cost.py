"""Measure the cost of durability: ``python -m lab.benchmarks.durability_cost [--items N]``, on local workers.

The same replayed items go through the same run with each kind of durability, in turn and repeatedly. It measures
CPU time of the process per item, which other programs on the machine change less than the elapsed time, and items/s.
With ``--paced`` the input is 1,000 items/s one by one and 100,000 items/s in bundles, instead of as fast as the run
accepts it; measured are items/s and the p95 of latency, which ends when results can be seen. ``unsynced`` is
exactly-once whose commits do not wait for the disk. The time of a write of 4 KB and its fsync is printed first: no
result can be seen earlier. The process is settled, as a runner's is.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, process_time
from typing import Any, NamedTuple

from apps import registry
from apps.contract import App
from compositions.model import Stage
from runtime.housekeeping import settle
from service.runner.rpc.requests import ReadStatus, Start
from service.runner.runner import Runner
from service.schemas.spec import BatchingSpec, InputSpec, RunSpec, SourceSpec, new_run

PACED = ((1, 6_000, 1_000.0), (512, 600_000, 100_000.0))
"""Bundle, items, items a second."""
KINDS: Mapping[str, Mapping[str, Any]] = {
    "none": {},
    "restart": {"durability": "restart"},
    "exactly-once": {"durability": "exactly-once"},
    "unsynced": {"durability": "exactly-once", "journal_sync": False},
}


class Measured(NamedTuple):
    wall_s: float
    """An item."""
    cpu_s: float
    """An item."""
    p95_ms: float
    """Of the run's last seconds; NaN where there is none."""


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
        app="light",
        run=new_run(),
        source=SourceSpec(kind="replay", loop=False),
        batching=BatchingSpec(items=bundle),
        input=InputSpec(rate_per_s=rate_per_s),
        journals=folder,
        pool="local",
        **KINDS[kind],
    )
    runner = Runner(spec)
    began_s, cpu_s = monotonic(), process_time()
    runner.ask(Start())
    assert runner.wait(600.0), "it did not end"
    took_s, used_s = monotonic() - began_s, process_time() - cpu_s
    status = runner.ask(ReadStatus())
    assert status.health.failure is None, status.health.failure
    p95_ms = status.latency_ms.p95 if status.latency_ms is not None else None
    return Measured(took_s / items, used_s / items, math.nan if p95_ms is None else p95_ms)


def main(args: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=20_000, help="of the runs with one item a bundle")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--paced", action="store_true")
    asked = parser.parse_args(args)
    print(f"a write of 4 KB and its fsync: {disk()}", flush=True)
    settle()
    registry.create = lambda *_: Light()  # type: ignore[assignment]  # the app of this measurement alone
    for bundle, items, rate_per_s in PACED if asked.paced else ((1, asked.items, None), (512, asked.items * 20, None)):
        measured: dict[str, list[Measured]] = {kind: [] for kind in KINDS}
        with TemporaryDirectory() as folder:
            for _ in range(asked.rounds):
                for kind in KINDS:
                    measured[kind].append(run(kind, items, bundle, folder, rate_per_s))
        plain = medians(measured["none"])
        for kind in KINDS:
            seen = medians(measured[kind])
            rate = f"{1 / seen.wall_s:9,.0f} items/s ({plain.wall_s / seen.wall_s:5.2f} of none)"
            cpu = f"{seen.cpu_s * 1e6:7.2f} us of CPU an item ({seen.cpu_s / plain.cpu_s:5.2f})"
            print(f"bundles of {bundle}, {kind:13}: {rate}, {cpu}, p95 {seen.p95_ms:6.1f} ms", flush=True)


def disk(writes: int = 200) -> str:
    with TemporaryDirectory() as folder, open(Path(folder) / "log", "wb", buffering=0) as file:
        took_ms = []
        for _ in range(writes):
            began_s = monotonic()
            file.write(bytes(4096))
            os.fsync(file.fileno())
            took_ms.append((monotonic() - began_s) * 1e3)
    return f"median {statistics.median(took_ms):.2f} ms, p95 {statistics.quantiles(took_ms, n=20)[-1]:.2f} ms"


def medians(runs: Sequence[Measured]) -> Measured:
    return Measured(*(statistics.median(each) for each in zip(*runs, strict=True)))


if __name__ == "__main__":
    main()
