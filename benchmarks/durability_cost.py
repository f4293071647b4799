"""What durability costs a stream: ``python -m benchmarks.durability_cost [--items N]``, on local workers.

The same replayed items go through the same run with each kind of durability, in turn and repeatedly; CPU time of the
process an item, which other programs on the machine change less than the clock, and items a second.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, process_time
from typing import Any

from apps import registry
from apps.contract import App
from compositions.model import Stage
from service.bodies.spec import BatchingSpec, RunSpec, SourceSpec
from service.running.asking.requests import ReadStatus, Start
from service.running.run_id import new_run
from service.running.runner import Runner

KINDS = ("none", "restart", "exactly-once")


class Light(App):
    """A stage that does next to nothing."""

    name = "light"
    stages = (Stage("same"),)
    count = 0

    def items(self, path: Path | None) -> Iterator[Any]:
        return iter(range(self.count))

    def same(self, value: int) -> int:
        return value


def run(durability: Any, items: int, bundle: int, folder: str) -> tuple[float, float]:
    """Wall and CPU seconds an item."""
    Light.count = items
    spec = RunSpec(
        app="light",
        run=new_run(),
        source=SourceSpec(kind="replay", loop=False),
        batching=BatchingSpec(items=bundle),
        durability=durability,
        journals=folder,
        pool="local",
    )
    runner = Runner(spec)
    began_s, cpu_s = monotonic(), process_time()
    runner.ask(Start())
    assert runner.wait(600.0), "it did not end"
    took_s, used_s = monotonic() - began_s, process_time() - cpu_s
    status = runner.ask(ReadStatus())
    assert status.failure is None, status.failure
    return took_s / items, used_s / items


def main(args: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=20_000, help="of the runs with one item a bundle")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args(args)
    registry.create = lambda *_: Light()  # type: ignore[assignment]  # the app of this measurement alone
    for bundle, items in ((1, asked.items), (512, asked.items * 20)):
        measured: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
        with TemporaryDirectory() as folder:
            for _ in range(asked.rounds):
                for kind in KINDS:
                    measured[kind].append(run(kind, items, bundle, folder))
        plain_s, plain_cpu_s = (statistics.median(each) for each in zip(*measured["none"], strict=True))
        for kind in KINDS:
            wall_s, cpu_s = (statistics.median(each) for each in zip(*measured[kind], strict=True))
            print(
                f"bundles of {bundle}, {kind:13}: {1 / wall_s:9,.0f} items/s ({plain_s / wall_s:5.2f} of none), "
                f"{cpu_s * 1e6:7.2f} us of CPU an item ({cpu_s / plain_cpu_s:5.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
