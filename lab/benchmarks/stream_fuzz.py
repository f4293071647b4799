"""Random streams on the dispatcher, one after the other, each compared with a plain loop
(:class:`lab.benchmarks.mixed.played.Played`).

    python -m lab.benchmarks.stream_fuzz [--runs 5000] [--seed 0] [--json]

Prints a line for each number that is at fault, the sums, and exits with 1 where there was a fault. One that is at fault
plays again with ``--seed NUMBER --runs 1``.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from dataclasses import asdict

import click

from lab.benchmarks.harness import metadata
from lab.benchmarks.mixed.played import Played


@click.command()
@click.option("--runs", default=5000, help="Number of runs.")
@click.option("--seed", default=0, help="Number of the first run; the others follow.")
@click.option("--json", "as_json", is_flag=True)
def main(runs: int, seed: int, as_json: bool) -> None:
    """Play random streams, and compare what comes out with a plain loop."""
    sums, began_s = Counter[str](), time.monotonic()
    faults: dict[int, str] = {}
    for number in range(seed, seed + runs):
        try:
            sums.update(asdict(Played(number).play()))
        except Exception as error:
            faults[number] = f"{type(error).__name__}: {error}".splitlines()[0]
            print(f"run {number}: {faults[number]}", file=sys.stderr, flush=True)
    found = {"runs": runs, "faults": len(faults), **sums, "seconds": round(time.monotonic() - began_s, 1)}
    if as_json:
        json.dump({**metadata(), **found, "faulty": faults}, sys.stdout, indent=1)
    else:
        print(", ".join(f"{name} {value}" for name, value in found.items()))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
