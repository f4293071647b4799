"""Ferret adapted under an SLO against every one of its compositions kept fixed, in one daemon, taking turns
(Vogel et al., section 4.4, figure 7).

    python -m benchmarks.adaptive_vs_static [--rounds 2] [--seconds 15] [--images DIR] [--json]
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from benchmarks.daemon import Daemon, daemon
from benchmarks.harness import metadata

SETTLE_S = 6.0
"""After a switch: the admission buffer of the composition before is worked off, as far as this one can."""
LOAD = 0.75
"""Input rate as a share of what the cores can do: beyond the slowest stage run sequentially, below saturation."""


@dataclass(frozen=True)
class Seen:
    """One turn: items/s delivered, and mean latency of the last ten seconds."""

    throughput_per_s: float
    latency_ms: float


def watch(running: Daemon, seconds: float) -> Seen:
    """Measures the composition that is active now."""
    before, began_s = running.status("ferret")["items"]["delivered"], time.monotonic()
    time.sleep(seconds)
    status = running.status("ferret")
    elapsed_s = time.monotonic() - began_s
    return Seen((status["items"]["delivered"] - before) / elapsed_s, status["latency_ms"]["mean"])


def prepare(running: Daemon, options: dict[str, Any], cores: int) -> tuple[float, float]:
    """Starts Ferret slowly, and chooses input rate and latency target from its profile."""
    body = {"source": {"kind": "replay"}, "input": {"rate_per_s": 1.5}, "options": options}
    running.send("POST", "/apps/ferret/start", body)
    running.wait_for(lambda: running.status("ferret")["items"]["delivered"] >= 25, 180, "25 results of ferret")
    stages = running.status("ferret")["stages"]
    cpu_s = sum(stage["cpu_time_ms"] for stage in stages) / 1e3
    rate_per_s = LOAD * cores / cpu_s
    running.send("PUT", "/apps/ferret/input", {"rate_per_s": rate_per_s})
    return rate_per_s, 3 * sum(stage["service_time_ms"] for stage in stages)


def turn(running: Daemon, name: str | None, seconds: float) -> tuple[str, Seen]:
    """One composition pinned, or (None) the manager left alone from composition 1 on until it has settled."""
    pinned = {"mode": "pinned", "composition": name or "1"}
    running.send("PUT", "/apps/ferret/mode", pinned)
    wanted = pinned["composition"]
    running.wait_for(lambda: running.status("ferret")["composition"]["name"] == wanted, 60, f"composition {wanted}")
    if name is None:
        decided = running.status("ferret")["last_decision"]["id"]
        running.send("PUT", "/apps/ferret/mode", {"mode": "auto"})
        running.wait_for(lambda: running.status("ferret")["last_decision"]["id"] > decided, 60, "a decision")
        time.sleep(SETTLE_S)
    time.sleep(SETTLE_S)
    return running.status("ferret")["composition"]["name"], watch(running, seconds)


def measure(options: dict[str, Any], rounds: int, seconds: float, cores: int) -> dict[str, Any]:
    turns: dict[str, list[Seen]] = defaultdict(list)
    settled = []
    with tempfile.TemporaryDirectory() as state, daemon(Path(state)) as running:
        rate_per_s, target_ms = prepare(running, options, cores)
        slo = {"app": "ferret", "metric": "latency", "target": target_ms}
        running.send("POST", "/slo", slo)
        names = [choice["name"] for choice in running.get("/compositions/ferret")]
        for _ in range(rounds):
            for name in [*names, None]:
                active, seen = turn(running, name, seconds)
                turns[name or "adaptive"].append(seen)
                settled += [active] if name is None else []
    return {"rate_per_s": rate_per_s, "target_ms": target_ms, "settled": settled, "turns": turns}


def table(found: dict[str, Any]) -> dict[str, Any]:
    """Medians over the rounds, and the adaptive run against the best of each figure."""
    rows = {
        name: Seen(
            statistics.median(seen.throughput_per_s for seen in turns),
            statistics.median(seen.latency_ms for seen in turns),
        )
        for name, turns in found["turns"].items()
    }
    static = [row for name, row in rows.items() if name != "adaptive"]
    ours = rows["adaptive"]
    return {
        "rows": {name: [row.throughput_per_s, row.latency_ms] for name, row in rows.items()},
        "throughput against best static": ours.throughput_per_s / max(row.throughput_per_s for row in static),
        "latency against best static": ours.latency_ms / min(row.latency_ms for row in static),
        "settled on": found["settled"],
        "rate [items/s]": found["rate_per_s"],
        "latency target [ms]": found["target_ms"],
    }


@click.command()
@click.option("--rounds", default=2)
@click.option("--seconds", default=15.0, help="length of a turn")
@click.option("--images", type=click.Path(exists=True), help="database photos; default: the samples")
@click.option("--cores", default=2)
@click.option("--json", "as_json", is_flag=True)
def main(rounds: int, seconds: float, images: str | None, cores: int, as_json: bool) -> None:
    """Prints throughput and latency of every composition and of the adaptive run."""
    result = table(measure({"images": images} if images else {}, rounds, seconds, cores))
    if as_json:
        json.dump({"metadata": metadata(), **result}, sys.stdout, indent=1)
        return
    for name, value in metadata().items():
        print(f"{name}: {value}")
    print(f"{'composition':<14}{'items/s':>10}{'latency ms':>12}")
    for name, (throughput_per_s, latency_ms) in result.pop("rows").items():
        print(f"{name:<14}{throughput_per_s:>10.2f}{latency_ms:>12.0f}")
    for name, value in result.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
