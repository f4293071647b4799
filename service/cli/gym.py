"""``recompose gym``: policies over loads that move, in virtual time."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table

from service.cli import render

if TYPE_CHECKING:
    from service.gym.contest import Contest, Round

ONLINE = "model,vogel,pdp21,hpa,hpa-scaled,keda,keda-scaled,flink,flink-scaled,dynamo,dynamo-scaled,mean,peak"
QUICK_POLICIES, QUICK_S = "model,hpa-scaled,peak", 60.0


def _listed(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _names(context: click.Context, option: click.Parameter, text: str | None) -> tuple[str, ...]:
    return _listed(text or "")


@click.command()
@click.option("--policies", callback=_names, help="Names, or a file and a class in it, as in policy.py:MyPolicy.")
@click.option("--loads", callback=_names, help="Groups of loads, or names of them; all without this.")
@click.option("--trace", "traces", multiple=True, type=click.Path(path_type=Path), help="Arrival times as a load.")
@click.option("--seeds", type=click.IntRange(1, 100), default=1, show_default=True)
@click.option("--duration", "duration_s", type=click.FloatRange(30, 86_400), help="Virtual seconds of each run.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("gym"), show_default=True)
@click.option("--quick", is_flag=True, help="A few loads and policies for a minute each; to see that it works.")
def gym(
    policies: tuple[str, ...],
    loads: tuple[str, ...],
    traces: tuple[Path, ...],
    seeds: int,
    duration_s: float | None,
    out: Path,
    quick: bool,
) -> None:
    """Compares policies over loads that move, in virtual time, with what a clairvoyant would pay.

    Writes report.html, report.md and runs.csv. What is measured, and how: docs/gym.md.
    """
    from service.gym.contest import Contest  # imported here: the simulation takes a moment to load
    from service.gym.suite import DURATION_S, QUICK, chosen

    names = policies or _listed(QUICK_POLICIES if quick else ONLINE)
    asked = loads or (*QUICK, *(["traces"] if traces else [])) if quick else loads
    length_s = duration_s or (QUICK_S if quick else DURATION_S)
    _conduct(Contest(names, chosen(asked, traces), seeds, length_s), out)


def _conduct(contest: Contest, out: Path) -> None:
    from service.gym.report import write
    from service.gym.standings import HEADS, standings

    console = render.console(stderr=True)
    console.print(f"{contest.runs} runs of {contest.duration_s:g} s in virtual time")

    rounds: list[Round] = []

    def told(each: Round) -> None:
        rounds.append(each)
        against = f"{each.figures.in_time:.3f} in time, {each.against_least:.3f} of the clairvoyant"
        console.print(f"{each.load}, seed {each.seed}: {each.policy}: {against}")

    try:
        contest.play(told)
    except KeyboardInterrupt:
        if not rounds:
            raise
        console.print(f"interrupted after {len(rounds)} of {contest.runs} runs; these are reported")
    table = Table(*HEADS)
    for row in standings(rounds):
        table.add_row(*row.cells())
    render.console().print(table)
    click.echo(str(write(out, rounds, _facts(contest, len(rounds)))))


def _facts(contest: Contest, played: int) -> dict[str, str]:
    return {
        "runs": f"{played} of {contest.runs}",
        "loads": str(len(contest.loads)),
        "seeds": str(contest.seeds),
        "duration": f"{contest.duration_s:g} s",
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }
