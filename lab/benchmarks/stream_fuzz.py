"""Play random streams on the dispatcher, one after the other, and compare each with a plain loop
(:class:`lab.benchmarks.mixed.played.Played`).

    python -m lab.benchmarks.stream_fuzz [--runs 5000] [--seed 0] [--json]

A faulty run is repeated with ``--seed NUMBER --runs 1``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

from lab.benchmarks.harness import Rows, main, progress
from lab.benchmarks.mixed.played import Played


def measure(runs: int = 5000, seed: Annotated[int, "number of the first run; the others follow"] = 0) -> Iterator[Rows]:
    sums, faults = Counter[str](), dict[str, bool]()
    for number in range(seed, seed + runs):
        try:
            sums.update(asdict(Played(number).play()))
        except Exception as error:
            fault = f"run {number}: {type(error).__name__}: {error}".splitlines()[0]
            faults[fault] = False
            progress(fault)
    yield Rows("random streams", [{"runs": runs, "faults": len(faults), **sums}], faults)


if __name__ == "__main__":
    main(measure)
