"""``recompose trace``: where one item waited and where it was worked on."""

from __future__ import annotations

from collections.abc import Sequence

import click
from rich.console import RenderableType

from service.bodies.traces import Trace
from service.cli import render
from service.cli.clients import connected, json_option, show, url_option
from service.cli.http import read, segment
from service.cli.names import app_argument


@click.command()
@app_argument
@click.argument("serial", type=click.IntRange(0), required=False)
@click.option("--run", help="Of the serial number; default: the run that has had one last.")
@click.option("--slowest", type=click.IntRange(1, 100), default=10, show_default=True, help="Without SERIAL: so many.")
@click.option("--last", "last_s", type=click.IntRange(1, 3600), default=300, show_default=True, help="Seconds back.")
@url_option
@json_option
def trace(app: str, serial: int | None, run: str | None, slowest: int, last_s: int, url: str, as_json: bool) -> None:
    """Shows where item SERIAL of APP waited and was worked on, or the slowest items of the last minutes. From
    telemetry, some ten seconds after they left."""
    of_run = {} if run is None else {"run": run}
    asked = {"slowest": slowest, "last_s": last_s} if serial is None else {"serial": serial, **of_run}
    with connected(url) as client:
        found = client.get(f"/traces/{segment(app)}", **asked)
        show(found, as_json, lambda found: _table(read(list[Trace], found)))


def _table(found: Sequence[Trace]) -> RenderableType:
    made = render.table("serial", "left at", "latency", "held back", "waited", "worked on", "composition", "outcome")
    for each in found:
        stages = ", ".join(f"{part.stage} {render.number(part.worked_ms, ' ms')}" for part in each.stages)
        times = (each.latency_ms, each.held_back_ms, each.waited_ms)
        told = [render.number(value, " ms") for value in times]
        made.add_row(f"{each.serial}", render.clock(each.left_at), *told, stages, each.composition, each.outcome)
    return made
