"""``recompose doctor``: what is wrong with this machine, and what to do."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from service.cli import render
from service.cli.checkup import Finding, Place, findings
from service.daemon.storing.database import default_directory

COLORS = {"good": "green", "note": "yellow", "bad": "red"}


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), default=8080, show_default=True, help="Of the service.")
@click.option("--state", type=click.Path(file_okay=False, path_type=Path), help="Of the service.")
@click.option("--json", "as_json", is_flag=True, help="The findings as JSON.")
def doctor(port: int, state: Path | None, as_json: bool) -> None:
    """Looks whether this machine has what Recompose needs; exit 1 when something is bad."""
    found = findings(Place(port, (state or default_directory()).resolve()))
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found], indent=2))
    else:
        render.console().print(_table(found))
    if any(each.grade == "bad" for each in found):
        raise SystemExit(1)


def _table(found: list[Finding]) -> Table:
    made = render.table("", "", "found", "what to do")
    for each in found:
        made.add_row(Text(each.grade, style=COLORS[each.grade]), each.about, each.found, each.do or "")
    return made
