"""Force switches through the API among all compositions of an app under load.

It counts what is lost, and measures how long outputs pause and how good the drain estimate is.

    python -m lab.benchmarks.switching [--app NAME] [--switches 50] [--rate 5] [--style seamless|drain] [--json]
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from apps.registry import create
from lab.benchmarks.daemon import Daemon, daemon
from lab.benchmarks.harness import Rows, Seed, main
from lab.benchmarks.plain import serial

DWELL_S = 2.0
"""Time in a composition between two switches, so that a steady state can be compared with."""


def start(running: Daemon, app: str, options: dict[str, Any], rate_per_s: float, style: str) -> None:
    body = {
        "source": {"kind": "replay", "loop": True},
        "input": {"rate_per_s": rate_per_s},
        "options": options,
        "switch_style": style,
    }
    running.send("POST", f"/apps/{app}/start", body)
    running.wait_for(lambda: running.status(app)["items"]["delivered"] >= 40, 120, f"40 results of {app}")


def force_switches(
    running: Daemon, names: Sequence[str], count: int, seed: int, app: str, dwell_s: float
) -> list[dict[str, Any]]:
    """Pin one composition after the other; return what the service says of every switch."""
    chance, seen, current = random.Random(seed), [], running.status(app)["composition"]["name"]
    for _ in range(count):
        current = chance.choice([name for name in names if name != current])
        running.send("PUT", f"/apps/{app}/mode", {"mode": "pinned", "composition": current})
        running.wait_for(lambda name=current: _switched(running, app, name), 60, f"the switch to {current}")  # type: ignore[misc]
        seen.append(running.status(app)["last_switch"])
        time.sleep(dwell_s)
    return seen


def _switched(running: Daemon, app: str, name: str) -> bool:
    status = running.status(app)
    last = status["last_switch"]
    return bool(last and last["to"] == name and last["gap_ms"] is not None and status["state"] != "switching")


def digest(values: Iterable[Any]) -> str:
    """Return a hash over results in order."""
    lines = (json.dumps(value, sort_keys=True) for value in values)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def sequential_values(name: str, options: dict[str, Any], count: int) -> list[Any]:
    """Return the results of a plain loop over the stages for the first ``count`` items of the looped data set."""
    app = create(name, options)
    app.prepare()
    once = [app.encode_result(value) for value in serial(app, islice(app.items(None), count))]
    return [once[index % len(once)] for index in range(count)]


def figures(switches: Sequence[dict[str, Any]], steady_p99_ms: float) -> dict[str, Any]:
    """Return medians over all switches; drains count after the tenth, if they were clean."""
    ratios = [switch["longest_gap_ms"] / steady_p99_ms for switch in switches]
    drains = [s for s in switches[10:] if s["drain_actual_ms"] and s["drain_mean_ms"]]
    errors = [abs(s["drain_mean_ms"] - s["drain_actual_ms"]) / s["drain_actual_ms"] for s in drains]
    bounded = [s["drain_actual_ms"] <= s["drain_estimate_ms"] for s in drains]
    return {
        "switches": len(switches),
        "errors": [switch["error"] for switch in switches if switch["error"]],
        "steady gap p99 [ms]": steady_p99_ms,
        "gap ratio, median": statistics.median(ratios),
        "gap ratio, worst": max(ratios),
        "drains after the 10th": len(drains),
        "drain |srtt - actual| / actual, median": statistics.median(errors) if errors else None,
        "drain actual <= estimate, share": statistics.mean(bounded) if bounded else None,
        "overdue": sum(switch["overdue"] for switch in switches),
        "migrated": sum(switch["migrated"] for switch in switches),
    }


def switched(app: str, options: dict[str, Any], count: int, rate_per_s: float, style: str, seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as state, daemon(Path(state)) as running:
        start(running, app, options, rate_per_s, style)
        names = [choice["name"] for choice in running.get(f"/compositions/{app}")]
        seen = force_switches(running, names, count, seed, app, DWELL_S)
        gaps = running.status(app)["output_gap_ms"]
        running.send("POST", f"/apps/{app}/stop", {})
        status, results = running.status(app), list(running.results(app))
    items = status["items"]
    serials = [result["serial"] for result in results]
    first = serials[0]
    values = sequential_values(app, options, serials[-1] + 1)[first:]
    return {
        "style": style,
        **figures(seen, gaps["p99"]),
        "items accepted": items["accepted"],
        "items delivered": items["delivered"],
        "results checked": len(results),
        "lost": len(set(range(first, items["accepted"])) - set(serials)),
        "doubled": len(serials) - len(set(serials)),
        "misordered": sum(later < earlier for earlier, later in pairwise(serials)),
        "results equal a plain loop's": digest(values) == digest(result.get("value") for result in results),
    }


def measure(
    app: Literal["ferret", "synthetic"] = "ferret",
    switches: int = 50,
    rate: Annotated[float, "input rate in items/s"] = 5.0,
    images: Annotated[Path | None, "Ferret: photos of the database (default: the samples)"] = None,
    queries: Annotated[Path | None, "Ferret: photos of the queries (default: the database)"] = None,
    style: tuple[Literal["seamless", "drain"], ...] = ("seamless", "drain"),
    seed: Seed = 1,
) -> Iterator[Rows]:
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    given = {"images": images, "queries": queries}
    options = {name: str(value) for name, value in given.items() if value is not None}
    if app == "synthetic":
        options["compute"] = "wait"  # its compositions scale beyond the cores, and its service times are steady
    for each in style:
        found = switched(app, options, switches, rate, each, seed)
        whole = not (found["lost"] or found["doubled"] or found["misordered"]) and found["results equal a plain loop's"]
        yield Rows(f"{app} at {rate:g} items/s", [found], {"every item once, in order, right": whole})


if __name__ == "__main__":
    main(measure)
