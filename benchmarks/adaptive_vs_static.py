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

from apps.ferret.photos import list_photos
from apps.samples import sample_photos
from benchmarks.daemon import Daemon, daemon
from benchmarks.harness import metadata

SETTLE_S = 4.0
"""From an empty pipeline to the steady state of a composition: several times the latency of an item."""
TRICKLE_PER_S = 1.0
"""Input rate at which every composition works off what the one before it has left waiting."""
LOAD = 0.55
"""Input rate as a share of what the cores can do alone: beyond the slowest stage run sequentially, within what the
parallel compositions take. Above that all of them have a backlog, and a latency says how long the turn was."""
QUERIES = 24
"""Different query photos, over and over, so that every turn sees the same ones: an item of Ferret takes 0.1 to 4 times
the mean, and turns over different photos would differ by a tenth for that alone."""
ASKED = 1.05
"""Latency target of the adaptive turn over the best latency that a fixed composition has just shown."""


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


def prepare(running: Daemon, options: dict[str, Any], cores: int) -> float:
    """Starts Ferret slowly, and chooses the input rate from its profile, items/s."""
    body = {"source": {"kind": "replay"}, "input": {"rate_per_s": 1.5}, "options": options}
    running.send("POST", "/apps/ferret/start", body)
    running.wait_for(lambda: running.status("ferret")["items"]["delivered"] >= 25, 180, "25 results of ferret")
    stages = running.status("ferret")["stages"]
    cpu_s = sum(stage["cpu_time_ms"] for stage in stages) / 1e3
    return float(LOAD * cores / cpu_s)


def fixed_turn(running: Daemon, name: str, rate_per_s: float, seconds: float) -> Seen:
    """One composition pinned, from an empty pipeline on."""
    pin(running, name)
    set_rate(running, TRICKLE_PER_S)
    settle(running)
    set_rate(running, rate_per_s)
    time.sleep(SETTLE_S)
    return watch(running, seconds)


def adaptive_turn(running: Daemon, rate_per_s: float, seconds: float) -> tuple[str, Seen]:
    """The manager left alone from composition 1 on; measured in what it settled on, when the backlog of 1 is gone."""
    pin(running, "1")
    set_rate(running, rate_per_s)
    decided = running.status("ferret")["last_decision"]["id"]
    running.send("PUT", "/apps/ferret/mode", {"mode": "auto"})
    running.wait_for(lambda: running.status("ferret")["last_decision"]["id"] > decided, 60, "a decision")
    settle(running)
    return running.status("ferret")["composition"]["name"], watch(running, seconds)


def few_queries(folder: Path, photos: Path) -> Path:
    """A folder with every n-th of the photos."""
    found = [path for _, path in list_photos(photos.resolve())]
    folder.mkdir()
    for path in found[:: max(1, len(found) // QUERIES)][:QUERIES]:
        (folder / path.name).symlink_to(path)
    return folder


def pin(running: Daemon, name: str) -> None:
    running.send("PUT", "/apps/ferret/mode", {"mode": "pinned", "composition": name})
    running.wait_for(lambda: running.status("ferret")["composition"]["name"] == name, 60, f"composition {name}")


def set_rate(running: Daemon, rate_per_s: float) -> None:
    running.send("PUT", "/apps/ferret/input", {"rate_per_s": rate_per_s})


def settle(running: Daemon) -> None:
    """Until nothing waits that was left from before, and a few items more."""
    running.wait_for(lambda: running.status("ferret")["queued"] <= 1, 60, "the backlog to go")
    time.sleep(SETTLE_S)


def measure(options: dict[str, Any], rounds: int, seconds: float, cores: int) -> dict[str, Any]:
    turns: dict[str, list[Seen]] = defaultdict(list)
    settled: list[str] = []
    with tempfile.TemporaryDirectory() as state, daemon(Path(state)) as running:
        queries = few_queries(Path(state) / "queries", Path(options.get("images") or sample_photos()))
        rate_per_s = prepare(running, {**options, "queries": str(queries)}, cores)
        names = [choice["name"] for choice in running.get("/compositions/ferret")]
        for _ in range(rounds):
            for name in names:
                turns[name].append(fixed_turn(running, name, rate_per_s, seconds))
            target_ms = ASKED * min(turns[name][-1].latency_ms for name in names)
            running.send("POST", "/slo", {"app": "ferret", "metric": "latency", "target": target_ms})
            name, seen = adaptive_turn(running, rate_per_s, seconds)
            settled.append(name)
            turns["adaptive"].append(seen)
            running.send("DELETE", "/slo/ferret", None)
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
