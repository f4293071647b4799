"""Compare the gym's plant with reality: record runs on Ray, and replay them in virtual time.

``python -m lab.benchmarks.plant_reality --out FILE.json [--only NAME] [--replay FILE.json] [--json]``

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
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from math import isnan
from pathlib import Path
from statistics import median
from typing import Any

import click

from compositions.errors import RecomposeError
from lab.benchmarks.harness import metadata
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


@click.command()
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="File to add the recordings to.")
@click.option("--only", multiple=True, help="Name of a scenario; may be given several times (default: all).")
@click.option(
    "--replay", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="File of recordings; record nothing."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def main(out: Path | None, only: tuple[str, ...], replay: Path | None, as_json: bool) -> None:
    """Record scenarios on Ray, replay them in the plant, and print how far the two are apart."""
    scenarios = {each.name: each for each in SCENARIOS if not only or each.name in only}
    if unknown := set(only) - set(scenarios):
        raise click.BadParameter(f"unknown scenario {', '.join(sorted(unknown))}", param_hint="--only")
    if replay is not None:
        read = json.loads(replay.read_text())
    elif out is not None:
        try:
            read = recorded(scenarios.values(), out)
        except RecomposeError as error:
            raise click.ClickException(str(error)) from error
    else:
        raise click.UsageError("either --out or --replay must be given")
    recordings = [from_json(each) for name, each in read["recordings"].items() if name in scenarios]
    rows = [compare(each, scenarios[each.scenario]) for each in recordings]
    if as_json:
        json.dump({**read["about"], "scenarios": [asdict(row) for row in rows]}, sys.stdout, indent=1)
    else:
        print("\n".join([*(f"{name}: {value}" for name, value in read["about"].items()), *table(rows)]))


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
            print(f"recorded {scenario.name}: {len(made[scenario.name]['due_us'])} items", file=sys.stderr)
    finally:
        cluster.shutdown()
    return {"about": about, "recordings": made}


def table(rows: Sequence[Compared]) -> list[str]:
    """Return a line a scenario, and the medians of those that others left alone."""
    heads = "".join(f"{name:>26}" for name in ("throughput/s", "p50 ms", "p95 ms", "in time"))
    lines = [f"{'measured, plant, ratio':<22}{'items':>6}{heads}{'stages':>8}{'hops':>6}{'others':>7} of the cores"]
    for row in rows:
        parts = "".join(_part(name, row) for name in NAMES)
        lines.append(f"{row.scenario:<22}{row.items:>6}{parts}{row.busy:>8.0%}{row.hops:>6.1%}{row.others:>7.0%}")
    calm = [row for row in rows if row.others <= DISTURBED]
    if len(calm) < len(rows):
        lines.append(f"disturbed and left out below: {len(rows) - len(calm)}; others used more than {DISTURBED:.0%}")
    for name in NAMES:
        ratios = [getattr(row.ratio, name) for row in calm if not isnan(getattr(row.ratio, name))]
        if ratios:
            lines.append(_median_line(name, ratios))
    return lines


def _part(name: str, row: Compared) -> str:
    factor, digits = (1.0, 3) if name == "share" else (1e3 if name.startswith("p") else 1.0, 1)
    real, plant = factor * getattr(row.real, name), factor * getattr(row.plant, name)
    return f"{real:>10.{digits}f}{plant:>9.{digits}f}{getattr(row.ratio, name):>7.3f}"


def _median_line(name: str, ratios: Sequence[float]) -> str:
    error = median(abs(ratio - 1) for ratio in ratios)
    inside = sum(abs(ratio - 1) <= WITHIN for ratio in ratios)
    verdict = "met" if error <= WITHIN else "MISSED"
    return (
        f"{name}: median ratio {median(ratios):.3f}, median error {error:.1%} ≤ {WITHIN:.0%} {verdict}; "
        f"{inside} of {len(ratios)} within"
    )


if __name__ == "__main__":
    main()
