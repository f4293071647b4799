"""``recompose push``: items into an app whose source is push, from a file, a pipe or the command line."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TextIO

import click

from service.bodies.results import AcceptedMany
from service.cli.clients import connected, url_option
from service.cli.http import Client, ServiceError, read, segment
from service.cli.names import app_argument

LINES = 200
BYTES = 512 * 1024
"""Of one request, half of what the service takes."""
PATIENCE_S = 60.0
"""So long an app that takes nothing more is asked again."""


@click.command()
@app_argument
@click.argument("file", type=click.File(encoding="utf-8"), default="-")
@click.option("--value", "values", multiple=True, metavar="JSON", help="An item; instead of FILE.")
@url_option
def push(app: str, file: TextIO, values: tuple[str, ...], url: str) -> None:
    """Pushes items into APP: JSON, one a line, from FILE or standard input. Waits where the app has no room."""
    for value in values:
        _check(value)
    count, run = 0, None
    with connected(url) as client:
        for lines in _portions(values or file):
            taken = _push(client, f"/apps/{segment(app)}/items", lines)
            count, run = count + len(taken.serials), taken.run
    click.echo(f"{count} {'item' if count == 1 else 'items'} pushed" + (f", run {run}" if run else ""))


def _check(value: str) -> None:
    try:
        json.loads(value)
    except ValueError as error:
        raise click.BadParameter(
            f"{value!r} is no JSON ({error}); a text needs quotes", param_hint="--value"
        ) from error


def _portions(lines: Iterable[str]) -> Iterator[list[str]]:
    """So many, and so heavy, as go into one request."""
    left = (line.strip() for line in lines)
    wanted = (line for line in left if line)
    portion: list[str] = []
    weight = 0
    for line in wanted:
        size = len(line.encode())
        if portion and (len(portion) >= LINES or weight + size > BYTES):
            yield portion
            portion, weight = [], 0
        portion.append(line)
        weight += size
    if portion:
        yield portion


def _push(client: Client, path: str, lines: list[str]) -> AcceptedMany:
    """All of them, however often there is no room for the rest. Raises: ServiceError."""
    serials: list[int] = []
    give_up_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            body = "\n".join(islice(lines, len(serials), None))
            headers = {"content-type": "application/x-ndjson"}
            taken = read(AcceptedMany, client.request("POST", path, content=body.encode(), headers=headers))
            return AcceptedMany(serials=[*serials, *taken.serials], run=taken.run)
        except ServiceError as error:
            refusal = error.refusal
            new = refusal.problem.get("serials") or [] if refusal is not None else []
            serials += new
            give_up_s = time.monotonic() + PATIENCE_S if new else give_up_s
            if refusal is None or refusal.retry_after_s is None or time.monotonic() > give_up_s:
                raise ServiceError(f"{error}; {len(serials)} of these {len(lines)} were taken before it") from error
            time.sleep(min(refusal.retry_after_s, 1.0))
