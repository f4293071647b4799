"""``recompose runs``, ``compare`` and ``trace``: list an app's runs, compare their figures, follow single items."""

from collections.abc import Callable, Sequence
from typing import Any

import click
from rich.console import RenderableType

from service.cli import render
from service.cli.clients import answered, client_option, json_option, show
from service.cli.http import Client, read, segment
from service.cli.texts import app_argument
from service.schemas.results import OwingRun
from service.schemas.runs import KnownRun, RunFigures, Trace


@click.command()
@click.argument("app", required=False)
@click.option("--owing", is_flag=True, help="List durable runs with undelivered data: those of APP, or of all apps.")
@client_option
@json_option
def runs(app: str | None, owing: bool, client: Client, as_json: bool) -> None:
    """List the runs of APP that have telemetry, the latest first; with --owing, runs with undelivered data."""
    if app is None and not owing:
        raise click.UsageError("give an APP, or --owing")
    if owing:
        found = [each for each in client.get("/owing") if app in (None, each["app"])]
        show(found, as_json, lambda found: _owing(read(list[OwingRun], found)))
    else:
        show(client.get(f"/runs/{segment(app or '')}"), as_json, lambda found: render.table(
            *("run", "began", "latest telemetry"),
            rows=[(run.run, run.began_at, run.ended_at) for run in read(list[KnownRun], found)],
        ))  # fmt: skip


@click.command()
@app_argument
@click.argument("run", nargs=-1)
@answered(lambda found: _beside(read(list[RunFigures], found)))
def compare(client: Client, app: str, run: tuple[str, ...]) -> Any:
    """Compare the given runs of APP, or its two latest. Data of a run appear about ten seconds late."""
    return client.get(f"/comparison/{segment(app)}", run=list(run))


def _owing(owing: Sequence[OwingRun]) -> RenderableType:
    made = render.table("app", "run", "epoch", "items", "results", "", "journal")
    for each in owing:
        counts = [render.number(count, "", 0) for count in (each.epoch, each.items, each.results)]
        state = each.fault or ("running" if each.present else "stopped")
        made.add_row(each.app, each.run, *counts, state, each.journal)
    return made


def _beside(found: Sequence[RunFigures]) -> RenderableType:
    return render.table("", *(each.run for each in found), rows=[(name, *map(of, found)) for name, of in ROWS])


def _items(run: RunFigures) -> str:
    looked_at = "" if run.items.all_of_them else " of the items read"
    return f"{run.items.delivered:,}, {run.items.failed:,} failed, {run.items.shed:,} shed{looked_at}"


ROWS: tuple[tuple[str, Callable[[RunFigures], str]], ...] = (
    ("began", lambda run: run.began_at),
    ("lasted", lambda run: render.number(run.length_s, " s", 0)),
    ("objective", lambda run: "none" if run.slo is None else render.objective_text(run.slo)),
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
    ("CPU per item", lambda run: render.number(run.cpu_ms_per_item, " ms")),
    ("decisions", lambda run: str(run.decisions)),
    ("switches", lambda run: str(run.switches)),
    ("compositions", lambda run: ", ".join(f"{each.name} {each.share:.0%}" for each in run.compositions)),
)


@click.command()
@app_argument
@click.argument("serial", type=click.IntRange(0), required=False)
@click.option("--run", help="Run that SERIAL belongs to (default: the latest run that has this serial number).")
@click.option("--slowest", type=click.IntRange(1, 100), default=10, help="Number of items if SERIAL is not given.")
@click.option(
    "--last", "last_s", type=click.IntRange(1, 3600), default=300, help="Seconds before now that --slowest covers."
)
@answered(lambda found: _table(read(list[Trace], found)))
def trace(client: Client, app: str, serial: int | None, run: str | None, slowest: int, last_s: int) -> Any:
    """Show where item SERIAL of APP spent its time, or list the slowest recent items. Items appear after about 10 s."""
    of_run = {} if run is None else {"run": run}
    asked = {"slowest": slowest, "last_s": last_s} if serial is None else {"serial": serial, **of_run}
    return client.get(f"/traces/{segment(app)}", **asked)


def _table(found: Sequence[Trace]) -> RenderableType:
    made = render.table("serial", "left at", "latency", "held back", "waited", "worked on", "composition", "outcome")
    for each in found:
        stages = ", ".join(f"{part.stage} {render.number(part.worked_ms, ' ms')}" for part in each.stages)
        times = (each.latency_ms, each.held_back_ms, each.waited_ms)
        told = [render.number(value, " ms") for value in times]
        made.add_row(f"{each.serial}", render.clock(each.left_at), *told, stages, each.composition, each.outcome)
    return made
