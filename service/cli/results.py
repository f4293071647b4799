"""``recompose results``: what an app delivered, as JSON lines."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import click

from control.decisions import State
from service.bodies.results import Result
from service.bodies.status import Status
from service.cli.clients import connected, url_option
from service.cli.http import Client, read, segment
from service.cli.names import app_argument

PAGE = 1000
LOOK_S = 0.2
OVER = (State.STOPPED, State.FAILED)


@click.command()
@app_argument
@click.option("--follow", "-f", is_flag=True, help="Wait for more, until the run is over.")
@click.option("--after", type=click.IntRange(0), help="Those behind this serial number; default: all that are kept.")
@click.option("--run", help="The run that --after is of; a restart in between is then told.")
@click.option("--limit", type=click.IntRange(1), help="At most so many.")
@url_option
def results(app: str, follow: bool, after: int | None, run: str | None, limit: int | None, url: str) -> None:
    """Prints the results of APP, one JSON object a line, in the order of its input."""
    with connected(url) as client:
        for count, row in enumerate(_rows(client, segment(app), {"after": after, "run": run}, follow), 1):
            click.echo(json.dumps(row, ensure_ascii=False))
            if count == limit:
                return


def _rows(client: Client, app: str, cursor: Mapping[str, Any], follow: bool) -> Iterator[Any]:
    """Page by page; nothing that is gone is passed over. Raises: ServiceError."""
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
