"""``recompose announce``: what load is to come."""

from __future__ import annotations

from datetime import datetime, timedelta

import click
from pydantic import ValidationError

from service.bodies.base import plain
from service.bodies.requests import AnnounceRequest
from service.bodies.status import Status
from service.cli import render
from service.cli.clients import connected, json_option, show, url_option
from service.cli.http import read, segment
from service.cli.names import app_argument

FORMATS = ["%H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"]
_AT = click.DateTime(FORMATS)


@click.command()
@app_argument
@click.argument("rate_per_s", type=click.FloatRange(0, min_open=True), metavar="[RATE]", required=False)
@click.option(
    "--from",
    "begins",
    type=_AT,
    help="Local time, unless it says otherwise. 18:30 is the next one, or the last if nearer and not over.",
)
@click.option("--until", "ends", type=_AT, help="When it is over.")
@click.option("--take-back", is_flag=True, help="Nothing is to come of all that was announced.")
@url_option
@json_option
def announce(
    app: str,
    rate_per_s: float | None,
    begins: datetime | None,
    ends: datetime | None,
    take_back: bool,
    url: str,
    as_json: bool,
) -> None:
    """Says that APP is to get RATE items a second for a while: there are workers for it when it begins."""
    given = (rate_per_s, begins, ends)
    if take_back and any(each is not None for each in given):
        raise click.UsageError("--take-back goes with nothing else")
    path = f"/apps/{segment(app)}/announce"
    asked = None if take_back else _asked(rate_per_s, begins, ends, datetime.now().astimezone())
    with connected(url) as client:
        status = client.request("DELETE", path) if asked is None else client.request("POST", path, json=plain(asked))
    show(status, as_json, lambda answer: render.coming_text(read(Status, answer)))


def _asked(rate_per_s: float | None, begins: datetime | None, ends: datetime | None, now: datetime) -> AnnounceRequest:
    """Raises: click.UsageError."""
    if rate_per_s is None or ends is None:
        raise click.UsageError("say RATE and --until, such as 80 --until 18:30, or --take-back")
    from_ = None if begins is None else _next(begins, now)
    if from_ is not None and _begun(begins, ends, from_, now):
        from_ = None
    until = _next(ends, from_ or now)
    try:
        return AnnounceRequest.model_validate({"from": from_, "until": until, "rate_per_s": rate_per_s})
    except ValidationError as error:
        raise click.UsageError(error.errors()[0]["msg"].removeprefix("Value error, ")) from error


def _begun(begins: datetime | None, ends: datetime, coming: datetime, now: datetime) -> bool:
    """Who says 18:30 at 18:35 means five minutes ago, unless it was over before now."""
    if begins is None or begins.year > 1900:
        return False
    last = coming - timedelta(days=1)
    return now - last < coming - now and _next(ends, last) > now


def _next(at: datetime, after: datetime) -> datetime:
    """Of a time of the day (click puts it into the year 1900), the next one after ``after``."""
    if at.year > 1900:
        return at.astimezone()
    today = after.replace(hour=at.hour, minute=at.minute, second=0, microsecond=0)
    return today if today > after else today + timedelta(days=1)
