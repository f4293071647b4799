"""``recompose runs`` and ``compare``: which runs an app had, and what they came to, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click
from rich.console import RenderableType

from service.bodies.runs import KnownRun, RunFigures
from service.cli import render
from service.cli.clients import connected, json_option, show, url_option
from service.cli.http import read, segment
from service.cli.names import app_argument


@click.command()
@app_argument
@url_option
@json_option
def runs(app: str, url: str, as_json: bool) -> None:
    """Lists the runs of APP of which telemetry is kept, the latest first."""
    with connected(url) as client:
        show(client.get(f"/runs/{segment(app)}"), as_json, lambda found: _list(read(list[KnownRun], found)))


@click.command()
@app_argument
@click.argument("run", nargs=-1)
@url_option
@json_option
def compare(app: str, run: tuple[str, ...], url: str, as_json: bool) -> None:
    """Lays runs of APP side by side: each RUN, or the two latest. From telemetry, some ten seconds later."""
    with connected(url) as client:
        found = client.get(f"/comparison/{segment(app)}", run=list(run))
        show(found, as_json, lambda found: _beside(read(list[RunFigures], found)))


def _list(known: Sequence[KnownRun]) -> RenderableType:
    made = render.table("run", "began", "ended")
    for each in known:
        made.add_row(each.run, each.began_at, each.ended_at)
    return made


def _beside(found: Sequence[RunFigures]) -> RenderableType:
    made = render.table("", *(each.run for each in found))
    for name, of in ROWS:
        made.add_row(name, *map(of, found))
    return made


def _objective(run: RunFigures) -> str:
    return "none" if run.slo is None else render.objective_text(run.slo)


def _items(run: RunFigures) -> str:
    looked_at = "" if run.items.all_of_them else " of those looked at"
    return f"{run.items.delivered:,}, {run.items.failed:,} failed, {run.items.shed:,} shed{looked_at}"


def _compositions(run: RunFigures) -> str:
    return ", ".join(f"{each.name} {each.share:.0%}" for each in run.compositions)


ROWS: tuple[tuple[str, Callable[[RunFigures], str]], ...] = (
    ("began", lambda run: run.began_at),
    ("lasted", lambda run: render.number(run.length_s, " s", 0)),
    ("objective", _objective),
    ("met", lambda run: "–" if run.slo_met_share is None else f"{run.slo_met_share:.1%} of the time"),
    ("offered", lambda run: render.number(run.offered_per_s, "/s")),
    ("delivered", lambda run: render.number(run.delivered_per_s, "/s")),
    ("items", _items),
    ("latency, mean", lambda run: render.number(run.latency_ms.mean, " ms")),
    ("median", lambda run: render.number(run.latency_ms.p50, " ms")),
    ("p95", lambda run: render.number(run.latency_ms.p95, " ms")),
    ("p99", lambda run: render.number(run.latency_ms.p99, " ms")),
    ("workers", lambda run: render.number(run.workers)),
    ("worker time", lambda run: render.number(run.worker_s, " s", 0)),
    ("CPU an item", lambda run: render.number(run.cpu_ms_per_item, " ms")),
    ("decisions", lambda run: str(run.decisions)),
    ("switches", lambda run: str(run.switches)),
    ("compositions", _compositions),
)
