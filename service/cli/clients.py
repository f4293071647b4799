"""Thin clients of the REST API: ``status``, ``decisions``, ``compositions``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType
from rich.live import Live

from service.bodies.compositions import Choice
from service.bodies.decisions import KINDS, Entry, EntryKind
from service.bodies.status import Status
from service.cli import render
from service.cli.app_client import AppClient
from service.cli.http import DEFAULT_URL, Client, read, segment
from service.cli.watch_view import DECISIONS, WatchView

url_option = click.option("--url", envvar="RECOMPOSE_URL", default=DEFAULT_URL, show_default=True)
json_option = click.option("--json", "as_json", is_flag=True, help="The service's answer as it is.")


@contextmanager
def connected(url: str) -> Iterator[Client]:
    client = Client(url)
    try:
        yield client
    finally:
        client.close()


def show(answer: Any, as_json: bool, view: Callable[[Any], RenderableType]) -> None:
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        render.console().print(view(answer))


@click.command()
@click.argument("app", required=False)
@click.option("--watch", is_flag=True, help="Live, until Ctrl-C.")
@url_option
@json_option
def status(app: str | None, watch: bool, url: str, as_json: bool) -> None:
    """Shows what the apps do, or one app in full."""
    if watch and app is None:
        raise click.UsageError("--watch needs an APP")
    with connected(url) as client:
        if app is None:
            show(client.get("/status"), as_json, lambda found: render.statuses_table(read(list[Status], found)))
        elif watch:
            _watch(client, app, as_json)
        else:
            found = client.get(f"/status/{segment(app)}")
            show(found, as_json, lambda found: render.status_view(read(Status, found)))


def _watch(client: Client, app: str, as_json: bool) -> None:
    statuses = client.stream(f"/status/{segment(app)}/stream")
    try:
        if as_json:
            for status in statuses:
                click.echo(json.dumps(status))
        else:
            view = WatchView(lambda: AppClient(client, app).decisions(DECISIONS))
            with Live(console=render.console(), auto_refresh=False) as live:
                for status in statuses:
                    live.update(view.show(read(Status, status)), refresh=True)
    except KeyboardInterrupt:  # the way to end it
        return


@click.command()
@click.argument("app")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
@click.option(
    "--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only these; may be given several times."
)
@click.option("--before", help="Only what ended before this time, such as 2026-11-20T10:00:00Z.")
@url_option
@json_option
def decisions(app: str, limit: int, kinds: tuple[EntryKind, ...], before: str | None, url: str, as_json: bool) -> None:
    """Shows what was decided for APP and why, newest first."""
    with connected(url) as client:
        asked = {"limit": limit, "kind": list(kinds), **({"before": before} if before else {})}
        found = client.get(f"/decisions/{segment(app)}", **asked)
        show(found, as_json, lambda found: render.decisions_table(read(list[Entry], found)))


@click.command()
@click.argument("app")
@click.option("--add", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="YAML file to add, live.")
@url_option
@json_option
def compositions(app: str, add: Path | None, url: str, as_json: bool) -> None:
    """Shows what can be chosen for APP; --add adds the compositions of a YAML file first."""
    with connected(url) as client:
        if add is not None:
            headers = {"content-type": "application/yaml"}
            client.request("POST", "/compositions", content=add.read_bytes(), headers=headers)
        found = client.get(f"/compositions/{segment(app)}")
        show(found, as_json, lambda found: render.compositions_table(read(list[Choice], found)))
