"""Compare the gym's plant with reality: record runs on Ray, and replay them in virtual time.

    python -m lab.benchmarks.plant_reality --out FILE.json [--only NAME] | --replay FILE.json [--json]

A recording holds each item's due time, its delivery, and what its stages took by the worker's clocks. The plant gets
the due times, the CPU time of each item and stage, and the waiting of stages that wait by nature; the same dispatcher
runs the same composition on it, with the same changes and deaths at the same times. Measured as well, and given to the
plant: the cores; the hop (mean); the CPU time of a task beside its stages, the dispatcher's included; the
start of a worker; the cores that other programs used in each second.

Known causes of a difference. The plant shares cores evenly at every instant, the kernel in slices of milliseconds, and
it leaves two workers on one core while another is free: with more workers at work than cores, real latencies are
longer. The mean hop has waits for a core in it, which the plant adds again. Others give way on a real machine, never in
the plant. Whether a worker has a task when it dies is chance, and its item waits until another worker is there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from math import isnan
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from lab.benchmarks.harness import Rows, main, metadata, progress
from lab.benchmarks.reality.recording import from_json, record, to_json
from lab.benchmarks.reality.replay import Compared, Figures, compare
from lab.benchmarks.reality.scenarios import SCENARIOS, Scenario
from runtime.pools.ray import cluster

WITHIN = 0.10
"""Error that the median of each figure may have."""
DISTURBED = 0.1
"""Share of the cores from which on other programs make a recording useless: the plant's others never give way, real
ones do."""
NAMES = tuple(Figures.__slots__)


def recorded(scenarios: Iterable[Scenario], out: Path) -> dict[str, Any]:
    """Record the scenarios, and write each to ``out`` as soon as it is over, in place of an earlier one."""
    earlier: dict[str, Any] = json.loads(out.read_text())["recordings"] if out.exists() else {}
    made: dict[str, Any] = {}
    about = metadata()
    cluster.connect()
    try:
        for scenario in scenarios:
            made[scenario.name] = to_json(record(scenario))
            everything = {"about": about, "recordings": {**earlier, **made}}
            out.write_text(json.dumps(everything, separators=(",", ":")))
            progress(f"recorded {scenario.name}: {len(made[scenario.name]['due_us'])} items")
    finally:
        cluster.shutdown()
    return {"about": about, "recordings": made}


def row_of(found: Compared) -> dict[str, Any]:
    """Return each figure as measured, in the plant, and their ratio; and the shares of the cores that were used."""
    figures = {
        f"{name}{of}": getattr(each, name)
        for name in NAMES
        for of, each in (("", found.real), (" in plant", found.plant), (" ratio", found.ratio))
    }
    busy = {"stages": found.busy, "hops": found.hops, "others": found.others}
    return {"scenario": found.scenario, "items": found.items, **figures, **busy}


def medians(found: Sequence[Compared]) -> Rows:
    """Judge the errors over the recordings that other programs left alone."""
    calm, rows, checks = [each for each in found if each.others <= DISTURBED], [], {}
    for name in NAMES:
        ratios = [ratio for each in calm if not isnan(ratio := getattr(each.ratio, name))]
        if ratios:
            errors = [abs(ratio - 1) for ratio in ratios]
            rows.append({"figure": name, "median ratio": median(ratios), "median error": median(errors)})
            checks[f"{name}: median error ≤ {WITHIN:.0%}"] = median(errors) <= WITHIN
    return Rows(
        f"{len(calm)} recordings of {len(found)}: others used at most {DISTURBED:.0%} of the cores", rows, checks
    )


def measure(
    out: Annotated[Path | None, "file to add the recordings to"] = None,
    only: Annotated[tuple[str, ...], "names of scenarios (default: all)"] = (),
    replay: Annotated[Path | None, "file of recordings; record nothing"] = None,
) -> Iterator[Rows]:
    scenarios = {each.name: each for each in SCENARIOS if not only or each.name in only}
    if unknown := set(only) - set(scenarios):
        raise SystemExit(f"unknown scenario {', '.join(sorted(unknown))}; there are {', '.join(scenarios)}")
    if replay is None and out is None:
        raise SystemExit("give either --out or --replay")
    read = json.loads(replay.read_text()) if replay is not None else recorded(scenarios.values(), out)
    found = [
        compare(from_json(each), scenarios[name]) for name, each in read["recordings"].items() if name in scenarios
    ]
    yield Rows("recorded on", [read["about"]])
    yield Rows("measured, in the plant, ratio; in seconds; shares of the cores", [row_of(each) for each in found])
    yield medians(found)


if __name__ == "__main__":
    main(measure)
