"""Ray for benchmarks, and the command of a comparison whose contenders run on it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.harness import Table, report

Measure = Callable[[int, int], list[Table]]
"""Gets rounds, and items a round."""


def compare(document: str | None, measure: Measure, *, quick: tuple[int, int], long: tuple[int, int]) -> None:
    """Reads the command line and prints what came out; ``document``: the module's own, whose first line is the help."""
    parser = argparse.ArgumentParser(description=document.splitlines()[0] if document else None)
    parser.add_argument("--quick", action="store_true", help=f"{quick[0]} short rounds instead of {long[0]} long ones")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    arguments = parser.parse_args()
    with ray_if(True):
        report(measure(*(quick if arguments.quick else long)), arguments.json)


@contextmanager
def ray_if(wanted: bool) -> Iterator[None]:
    """Connected meanwhile. Where it is not wanted it need not be there: free-threaded Python has none."""
    if not wanted:
        yield
        return
    from runtime.pools import ray_cluster

    ray_cluster.connect()
    try:
        yield
    finally:
        ray_cluster.shutdown()
