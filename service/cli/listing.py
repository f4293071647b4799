"""``recompose apps`` and ``logs``: list the apps of the service, and print its log."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import click
from rich.console import RenderableType

from service.cli import render
from service.cli.clients import connected, json_option, show, url_option
from service.cli.http import Client, read
from service.cli.texts import Amount, items_of, known_apps
from service.schemas.compositions import AppInfo
from service.schemas.operation import LogLine

LOOK_S = 0.5
MOST = 2000


@click.command()
@url_option
@json_option
def apps(url: str, as_json: bool) -> None:
    """List the apps that the service can run: their stages, their compositions, and whether they run."""
    with connected(url) as client:
        show(client.get("/apps"), as_json, lambda found: _table(read(list[AppInfo], found)))


def items_of_service(client: Client, name: str, asked: Amount) -> int:
    """Return the number of items that were asked for of an app of the service. Raises: RecomposeError for a class of
    input that it does not have."""
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
@click.option("--follow", "-f", is_flag=True, help="Wait for further lines until Ctrl-C.")
@click.option(
    "--limit",
    type=click.IntRange(1, MOST),
    default=100,
    show_default=True,
    help="Maximum number of lines that exist already.",
)
@url_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def logs(app: str | None, follow: bool, limit: int, url: str, as_json: bool) -> None:
    """Print the latest lines of the service's log: all of them, or those about APP and the prints of its stages."""
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
    """Return what an app printed, or the event with its fields."""
    printed = line.about.get("line")
    if printed is not None:
        return f"{render.clock(line.at)} ({line.about.get('by')}) {printed}"
    fields = " ".join(f"{name}={value}" for name, value in line.about.items())
    return f"{render.clock(line.at)} {line.level:<7} {line.event} {fields}".rstrip()
