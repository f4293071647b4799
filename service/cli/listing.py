"""``recompose apps`` and ``logs``: what the service has, and what it says."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import click
from rich.console import RenderableType

from apps.input.classes import Amount, items_of
from service.bodies.apps import AppInfo
from service.bodies.logs import LogLine
from service.cli import render
from service.cli.clients import connected, json_option, show, url_option
from service.cli.http import Client, read
from service.cli.names import known_apps

LOOK_S = 0.5
MOST = 2000


@click.command()
@url_option
@json_option
def apps(url: str, as_json: bool) -> None:
    """Lists the apps that the service can run: their stages, their compositions, and whether they run."""
    with connected(url) as client:
        show(client.get("/apps"), as_json, lambda found: _table(read(list[AppInfo], found)))


def items_of_service(client: Client, name: str, asked: Amount) -> int:
    """How many items are asked for of an app of the service. Raises: RecomposeError for a class that it has not."""
    if isinstance(asked, int):
        return asked
    found = read(list[AppInfo], client.get("/apps"))
    return items_of(name, next((app.input_classes for app in found if app.name == name), {}), asked)


def _table(found: Sequence[AppInfo]) -> RenderableType:
    made = render.table("app", "state", "stages", "compositions", "description")
    for app in found:
        stages = ", ".join(stage.name for stage in app.stages)
        made.add_row(app.name, app.state, stages, str(len(app.compositions)), app.description)
    return made


@click.command()
@click.argument("app", required=False, shell_complete=known_apps)
@click.option("--follow", "-f", is_flag=True, help="Wait for more, until Ctrl-C.")
@click.option("--limit", type=click.IntRange(1, MOST), default=100, show_default=True, help="Of what is there already.")
@url_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def logs(app: str | None, follow: bool, limit: int, url: str, as_json: bool) -> None:
    """Prints what the service logged last: all of it, or what is about APP and what its stages printed."""
    with connected(url) as client:
        try:
            for line in _lines(client, app, limit, follow):
                click.echo(json.dumps(line, ensure_ascii=False) if as_json else _told(read(LogLine, line)))
        except KeyboardInterrupt:  # the way to end it
            return


def _lines(client: Client, app: str | None, limit: int, follow: bool) -> Iterator[Any]:
    of_app = {} if app is None else {"app": app}
    page = client.get("/logs", limit=limit, **of_app)
    last = 0
    while True:
        yield from page
        last = max([last, *(read(LogLine, line).id for line in page)])
        if not follow:
            return
        time.sleep(LOOK_S)
        page = client.get("/logs", after=last, limit=MOST, **of_app)


def _told(line: LogLine) -> str:
    """What an app printed, or the event with its fields."""
    printed = line.about.get("line")
    if printed is not None:
        return f"{render.clock(line.at)} ({line.about.get('by')}) {printed}"
    fields = " ".join(f"{name}={value}" for name, value in line.about.items())
    return f"{render.clock(line.at)} {line.level:<7} {line.event} {fields}".rstrip()
