"""Thin clients of the REST API: ``apps``, ``status``, ``watch``, ``decisions``, ``compositions``, ``logs``."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Group, RenderableType
from rich.live import Live

from service.cli import render
from service.cli.http import DEFAULT_URL, Client, read, segment
from service.cli.texts import FILE, Amount, app_argument, items_of, known_apps, options
from service.cli.watch_view import DECISIONS, WatchView
from service.schemas.compositions import AppInfo, Choice
from service.schemas.decisions import KINDS, Entry, EntryKind
from service.schemas.results import LogLine
from service.schemas.status import Status

client_option = click.option(
    "--url",
    "client",
    envvar="RECOMPOSE_URL",
    default=DEFAULT_URL,
    help="Address of the service; the default is RECOMPOSE_URL if it is set.",
    callback=lambda ctx, _, url: ctx.with_resource(closing(Client(url))),
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the service's answer as JSON.")


def answered(view: Callable[[Any], RenderableType]) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Return a decorator that prints a command's answer as ``view`` draws it, or with --json unchanged."""

    def decorate(ask: Callable[..., Any]) -> Callable[..., None]:
        @client_option
        @json_option
        @wraps(ask)
        def asking(as_json: bool, **given: Any) -> None:
            show(ask(**given), as_json, view)

        return asking

    return decorate


def show(answer: Any, as_json: bool, view: Callable[[Any], RenderableType]) -> None:
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        render.console().print(view(answer))


F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Which:
    kind: tuple[EntryKind, ...]
    before: str | None
    limit: int

    def answer(self, client: Client, app: str) -> Any:
        """Return the service's answer, newest first. Raises: ServiceError."""
        before = {"before": self.before} if self.before else {}
        return client.get(f"/decisions/{segment(app)}", limit=self.limit, kind=list(self.kind), **before)

    def entries(self, client: Client, app: str) -> list[Entry]:
        """Return the entries. Raises: ServiceError."""
        return read(list[Entry], self.answer(client, app))


def which_decisions(most: int) -> Callable[[F], F]:
    """Return the options ``--kind``, ``--before`` and ``--limit`` (default ``most``): the fields of ``Which``."""
    kinds, of_kind = click.Choice(KINDS), "Only decisions of this kind; may be given several times."
    return options(
        click.option("--limit", type=click.IntRange(1, 1000), default=most, help="Maximum number of decisions."),
        click.option("--kind", type=kinds, multiple=True, help=of_kind),
        click.option("--before", help="Only decisions before this time, such as 2026-11-20T10:00:00Z."),
    )


@click.command()
@click.argument("app", required=False)
@click.option("--watch", is_flag=True, help="Update the view until Ctrl-C, like the command watch.")
@which_decisions(DECISIONS)
@client_option
@json_option
@click.pass_context
def status(ctx: click.Context, /, app: str | None, watch: bool, client: Client, as_json: bool, **given: Any) -> None:
    """Show the state of all apps, or one app in full with its last decisions."""
    default = click.core.ParameterSource.DEFAULT
    names = ("watch", "kind", "before", "limit")
    asked = [f"--{name}" for name in names if ctx.get_parameter_source(name) is not default]
    if app is None and asked:
        raise click.UsageError(f"{asked[0]} needs an APP")
    if as_json and not watch and asked:
        raise click.UsageError("--json prints the status once; for decisions, use recompose decisions APP --json")
    which = Which(**given)
    if app is None:
        show(client.get("/status"), as_json, lambda found: render.statuses_table(read(list[Status], found)))
    elif watch:
        _watch(client, app, which, as_json)
    else:
        found = client.get(f"/status/{segment(app)}")
        show(found, as_json, lambda found: _in_full(read(Status, found), which.entries(client, found["app"])))


def _in_full(status: Status, entries: Sequence[Entry]) -> RenderableType:
    history = ("", render.decisions_table(entries)) if entries else ()
    return Group(render.status_view(status), *history)


@click.command()
@app_argument
@which_decisions(DECISIONS)
@client_option
@json_option
def watch(app: str, client: Client, as_json: bool, **which: Any) -> None:
    """Show APP live, until Ctrl-C: its pipeline, rates, objective and last decisions."""
    _watch(client, app, Which(**which), as_json)


def _watch(client: Client, app: str, which: Which, as_json: bool) -> None:
    statuses = client.stream(f"/status/{segment(app)}/stream")
    with suppress(KeyboardInterrupt):  # Ctrl-C is the way to end it
        if as_json:
            for status in statuses:
                click.echo(json.dumps(status))
        else:
            view, console = WatchView(lambda: which.entries(client, app)), render.console()
            with Live(console=console, auto_refresh=False) as live:
                for status in statuses:
                    live.update(view.fitting(read(Status, status), console), refresh=True)


@click.command()
@app_argument
@which_decisions(20)
@answered(lambda found: render.decisions_table(read(list[Entry], found)))
def decisions(client: Client, app: str, **which: Any) -> Any:
    """Show the decisions for APP and their reasons, newest first."""
    return Which(**which).answer(client, app)


@click.command()
@click.argument("app")
@click.option("--add", type=FILE, help="YAML file with compositions to add to the running app.")
@answered(lambda found: render.compositions_table(read(list[Choice], found)))
def compositions(client: Client, app: str, add: Path | None) -> Any:
    """Show the compositions of APP; --add adds the compositions of a YAML file first."""
    if add is not None:
        headers = {"content-type": "application/yaml"}
        client.request("POST", "/compositions", content=add.read_bytes(), headers=headers)
    return client.get(f"/compositions/{segment(app)}")


LOOK_S = 0.5
MOST = 2000


@click.command()
@client_option
@json_option
@click.option("--all", "everything", is_flag=True, help="List the bundled apps as well as your own.")
def apps(client: Client, as_json: bool, everything: bool) -> None:
    """List the apps that the service can run: their stages, their compositions, and whether they run."""
    show(client.get("/apps"), as_json, lambda found: _table(read(list[AppInfo], found), everything))


def items_of_service(client: Client, name: str, asked: Amount) -> int:
    """Return the requested number of items of an app. Raises: RecomposeError for an unknown class of input."""
    if isinstance(asked, int):
        return asked
    found = read(list[AppInfo], client.get("/apps"))
    return items_of(name, next((app.input_classes for app in found if app.name == name), {}), asked)


def _table(found: Sequence[AppInfo], everything: bool) -> RenderableType:
    """Return a user's own apps and running apps; if there are no own apps, all."""
    made = render.table("app", "state", "stages", "compositions", "description")
    everything = everything or all(app.bundled for app in found)
    for app in (app for app in found if everything or app.running or not app.bundled):
        stages = ", ".join(stage.name for stage in app.stages)
        made.add_row(app.name, app.state, stages, str(len(app.compositions)), app.description)
    return made


@click.command()
@click.argument("app", required=False, shell_complete=known_apps)
@click.option("--follow", "-f", is_flag=True, help="Wait for further lines until Ctrl-C.")
@click.option("--limit", type=click.IntRange(1, MOST), default=100, help="Maximum number of past lines.")
@client_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def logs(app: str | None, follow: bool, limit: int, client: Client, as_json: bool) -> None:
    """Print the latest lines of the service's log. With APP, print lines about APP and the output of its stages."""
    with suppress(KeyboardInterrupt):  # Ctrl-C is the way to end it
        for line in _lines(client, app, limit, follow):
            click.echo(json.dumps(line, ensure_ascii=False) if as_json else _told(read(LogLine, line)))


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
    """Return the line that an app printed, or the event with its fields."""
    printed = line.about.get("line")
    if printed is not None:
        return f"{render.clock(line.at)} ({line.about.get('by')}) {printed}"
    fields = " ".join(f"{name}={value}" for name, value in line.about.items())
    return f"{render.clock(line.at)} {line.level:<7} {line.event} {fields}".rstrip()
