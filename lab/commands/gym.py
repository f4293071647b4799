"""``recompose gym``: compare policies under changing loads, in virtual time."""

from __future__ import annotations

import json
import platform
from datetime import UTC, datetime
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
from rich.table import Table

if TYPE_CHECKING:
    from lab.gym.contest import Contest, Result
    from lab.gym.suite import Pair, Part

QUICK_POLICIES, QUICK_S = "expected-cost,square-root-merged,hpa", 600.0


def _listed(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _names(context: click.Context, option: click.Parameter, text: str | None) -> tuple[str, ...]:
    return _listed(text or "")


_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command()
@click.option("--policies", callback=_names, help="Policies by name, or as FILE:CLASS, such as policy.py:MyPolicy.")
@click.option(
    "--suite", "part", type=click.Choice(["training", "train", "test", "fresh"]), default="training", show_default=True
)
@click.option("--loads", callback=_names, help="Pairs of app and load, by name or group (default: all of the suite).")
@click.option("--trace", "traces", multiple=True, type=_FILE, help="File of arrivals that replaces the suite's loads.")
@click.option("--app", "apps", multiple=True, type=_FILE, help="CSV file with costs that replace the suite's app.")
@click.option("--exact", is_flag=True, help="Keep the arrival times of --trace instead of scaling them to --busy.")
@click.option("--speed", type=click.FloatRange(0.001, 1000), default=1.0, help="Speed factor of --trace with --exact.")
@click.option(
    "--busy", type=click.FloatRange(0.01), default=4.0, show_default=True, help="Load, as mean number of busy workers."
)
@click.option("--cost-factor", type=click.FloatRange(0.0001), default=1.0, show_default=True, help="Cost multiplier.")
@click.option("--seeds", type=click.IntRange(1, 100), default=1, show_default=True, help="Runs per app and load.")
@click.option("--duration", "duration_s", type=click.FloatRange(60, 86_400), help="Virtual seconds of each run.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("gym"), help="Report folder.")
@click.option("--json", "as_json", is_flag=True, help="Print each run as JSON instead of a table.")
@click.option("--quick", is_flag=True, help="Run two pairs and three policies for ten virtual minutes, as a check.")
def gym(
    policies: tuple[str, ...],
    part: str,
    loads: tuple[str, ...],
    traces: tuple[Path, ...],
    apps: tuple[Path, ...],
    exact: bool,
    speed: float,
    busy: float,
    cost_factor: float,
    seeds: int,
    duration_s: float | None,
    out: Path,
    as_json: bool,
    quick: bool,
) -> None:
    """Judge policies on changing loads, in virtual time.

    Writes report.html, report.md, runs.csv and a picture of each load. docs/research/gym.md explains the measurements.
    """
    from lab.gym.contest import Contest  # imported here: the simulation takes a moment to load
    from lab.gym.players import PLAYERS
    from lab.gym.suite import HOUR_S, QUICK, chosen, of_users

    names = policies or (_listed(QUICK_POLICIES) if quick else tuple(PLAYERS))
    length_s = duration_s or (QUICK_S if quick else HOUR_S)
    if traces or apps:
        played = speed if exact else 0.0
        pairs = of_users(traces, apps, speed=played, busy=busy, factor=cost_factor, duration_s=length_s)
    else:
        of_part = cast("Part", {"train": "training"}.get(part, part))
        pairs = chosen(of_part, loads or (QUICK if quick else ()), length_s, seeds)
    _conduct(Contest(names, pairs), pairs, out, as_json)


def _conduct(contest: Contest, pairs: tuple[Pair, ...], out: Path, as_json: bool) -> None:
    from lab.gym.report import HEADS, as_plain, standings, write
    from service.cli import render

    console = render.console(stderr=True)
    console.print(
        f"{len(contest.policies) * len(pairs)} runs in virtual time, after the bounds of {len(pairs)} pair(s)"
    )
    results: list[Result] = []

    def tell(each: Result) -> None:
        results.append(each)
        said = "holds" if each.score.holds else f"does not hold ({each.score.worst_window:.3f} in the worst window)"
        bound = "no schedule holds" if isinf(each.bound.floor) else f"floor {each.bound.floor:.2f}"
        console.print(f"{each.pair.name}: {each.policy}: {said}, {each.score.cost:.2f} workers, {bound}")

    try:
        results = list(contest.play(tell))
    except KeyboardInterrupt:
        if not results:
            raise
        console.print(f"interrupted after {len(results)} runs; these are reported")
    page = write(out, results, _facts(results))
    if as_json:
        click.echo(json.dumps([as_plain(each) for each in results], indent=2))
        return
    table = Table(*HEADS)
    for row in standings(results):
        table.add_row(*row.cells())
    render.console().print(table)
    click.echo(str(page))


def _facts(results: list[Result]) -> dict[str, str]:
    from lab.gym.plant import VERSION
    from lab.gym.suite import SPLIT

    pairs = {each.pair for each in results}
    return {
        "runs": str(len(results)),
        "pairs": str(len(pairs)),
        "duration": ", ".join(sorted({f"{pair.duration_s:g} s" for pair in pairs})),
        "plant": str(VERSION),
        "split": str(SPLIT),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }
