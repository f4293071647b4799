"""``recompose start``, ``stop``, ``push`` and ``results``: apps of a running service, their items and their results."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TextIO

import click
from pydantic import ValidationError

from control.decisions import State
from service.cli import render
from service.cli.clients import answered, client_option, items_of_service
from service.cli.http import Client, ServiceError, read, segment
from service.cli.run_options import START, fields_of
from service.cli.texts import Parsed, app_argument, options
from service.schemas.base import plain
from service.schemas.refusals import refusal
from service.schemas.requests import StartRequest
from service.schemas.results import AcceptedMany, Result
from service.schemas.slo import BudgetBody
from service.schemas.status import Status

STOP_S = 620.0
"""Timeout of a stop request, in seconds: longer than the longest drain that the service waits for."""


@click.command()
@options(*START)
@answered(lambda answer: _told(read(Status, answer)))
def start(client: Client, app: str, **given: Any) -> Any:
    """Start APP in the service, with its own data unless --source names other data; --slo replaces its objective."""
    items = given.pop("items")
    request = _request(**given)
    if items is not None:
        request = request.model_copy(update={"items": items_of_service(client, app, items)})
    return client.request("POST", f"/apps/{segment(app)}/start", json=plain(request))


def _request(**given: Any) -> StartRequest:
    """Return the request with the given options only; the service chooses the rest."""
    slo, threshold, budget = (given.pop(name) for name in ("slo", "threshold", "budget"))
    fields = fields_of(given)
    fields |= {"duration_s": given.pop("duration"), "slo": list(slo), "budget": BudgetBody.of(budget), **given}
    try:
        objective = {"threshold": threshold} if slo else {}
        return StartRequest(**objective, **{name: value for name, value in fields.items() if value})
    except ValidationError as error:
        raise click.UsageError(refusal(error)) from error


def _told(status: Status) -> str:
    run = f", run {status.origin.run}" if status.origin.run else ""
    note = status.requested.slo_note
    return f"{status.app}: {status.state}{run}" + (f"\n{note}" if note else "")


@click.command()
@app_argument
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0, 86_400),
    help="Maximum time to deliver accepted items, in seconds (default 600); then the rest is given up.",
)
@click.option("--now", is_flag=True, help="End the runner and its workers at once, without delivering accepted items.")
@answered(lambda answer: render.status_view(read(Status, answer)))
def stop(client: Client, app: str, timeout_s: float | None, now: bool) -> Any:
    """Stop APP after it has delivered all accepted items; its last results can still be read. To shorten a stop that
    takes too long, call it again with --timeout or --now."""
    if now and timeout_s is not None:
        raise click.UsageError("--timeout and --now exclude each other")
    how = {"force": True} if now else {} if timeout_s is None else {"timeout_s": timeout_s}
    body = {"json": how} if how else {}
    return client.request("POST", f"/apps/{segment(app)}/stop", timeout=STOP_S + (timeout_s or 0.0), **body)


def _json_text(text: str) -> str:
    try:
        json.loads(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not JSON ({error}); put a text in double quotes") from error
    return text


LINES = 200
BYTES = 512 * 1024
"""Maximum size of one request, in bytes: half the service's limit."""
PATIENCE_S = 60.0
"""Time for which a full app is asked again, in seconds."""


@click.command()
@app_argument
@click.argument("file", type=click.File(encoding="utf-8"), default="-")
@click.option(
    "--value",
    "values",
    multiple=True,
    metavar="JSON",
    type=Parsed(_json_text),
    help="Item to push, instead of FILE; may be given several times.",
)
@client_option
def push(app: str, file: TextIO, values: tuple[str, ...], client: Client) -> None:
    """Push items into APP, one JSON value per line, from FILE or stdin; wait while the app's buffer is full."""
    count, run = 0, None
    for lines in _portions(values or file):
        taken = _push(client, f"/apps/{segment(app)}/items", lines)
        count, run = count + len(taken.serials), taken.run
    click.echo(f"{count} {'item' if count == 1 else 'items'} pushed" + (f", run {run}" if run else ""))


def _portions(lines: Iterable[str]) -> Iterator[list[str]]:
    """Divide the lines into requests of limited number and size."""
    portion: list[str] = []
    weight = 0
    for line in filter(None, map(str.strip, lines)):
        size = len(line.encode())
        if portion and (len(portion) >= LINES or weight + size > BYTES):
            yield portion
            portion, weight = [], 0
        portion.append(line)
        weight += size
    if portion:
        yield portion


def _push(client: Client, path: str, lines: list[str]) -> AcceptedMany:
    """Push all lines, waiting whenever the app's buffer is full. Raises: ServiceError."""
    serials: list[int] = []
    give_up_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            body = "\n".join(islice(lines, len(serials), None))
            headers = {"content-type": "application/x-ndjson"}
            taken = read(AcceptedMany, client.request("POST", path, content=body.encode(), headers=headers))
            return AcceptedMany(serials=[*serials, *taken.serials], run=taken.run)
        except ServiceError as error:
            new = error.problem.get("serials") or []
            serials += new
            give_up_s = time.monotonic() + PATIENCE_S if new else give_up_s
            accepted = f"{len(serials)} of these {len(lines)}" if serials else "no"
            if error.retry_after_s is None or time.monotonic() > give_up_s:
                raise ServiceError(f"{error}; {accepted} items were accepted") from error
            time.sleep(min(error.retry_after_s, 1.0))


PAGE = 1000
LOOK_S = 0.2
OVER = (State.STOPPED, State.FAILED)


@click.command()
@app_argument
@click.option("--follow", "-f", is_flag=True, help="Wait for further results until the run is over.")
@click.option("--after", type=click.IntRange(0), help="Only results after this serial number (default: all retained).")
@click.option("--run", help="Run that the serial number in --after belongs to; a restart since then is reported.")
@click.option("--limit", type=click.IntRange(1), help="Maximum number of results.")
@client_option
def results(app: str, follow: bool, after: int | None, run: str | None, limit: int | None, client: Client) -> None:
    """Print the results of APP, one JSON object per line, in the order of its input."""
    rows = _rows(client, segment(app), {"after": after, "run": run}, follow)
    for row in islice(rows, limit):
        click.echo(json.dumps(row, ensure_ascii=False))


def _rows(client: Client, app: str, cursor: Mapping[str, Any], follow: bool) -> Iterator[Any]:
    """Yield results page by page, without skipping results that are gone. Raises: ServiceError."""
    while True:
        over = follow and read(Status, client.get(f"/status/{app}")).state in OVER
        given = {name: value for name, value in cursor.items() if value is not None}
        page = client.get(f"/results/{app}", **given, limit=PAGE)
        yield from page
        if page:
            last = read(Result, page[-1])
            cursor = {"after": last.serial, "run": last.run}
        elif over or not follow:
            return
        else:
            time.sleep(LOOK_S)
