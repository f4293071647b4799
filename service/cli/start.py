"""``recompose start`` and ``stop``: apps of a running service."""

from __future__ import annotations

from typing import Any

import click
from pydantic import ValidationError

from service.bodies.base import plain
from service.bodies.requests import JointSlo, StartRequest
from service.bodies.status import Status
from service.cli import render
from service.cli.clients import connected, json_option, show, url_option
from service.cli.http import read, segment
from service.cli.listing import items_of_service
from service.cli.names import app_argument
from service.cli.run_options import START, options
from service.cli.run_spec import batching_of
from service.cli.slo_options import all_together
from service.cli.texts import parse_options

STOP_S = 620.0
"""Longer than the longest drain that the service waits for."""


@click.command()
@options(START)
@url_option
@json_option
def start(app: str, url: str, as_json: bool, **given: Any) -> None:
    """Starts APP in the service, on its own data unless --source says otherwise; --slo sets its objective first."""
    slo = all_together(given.pop("slo"), given.pop("threshold"), given.pop("budget"))
    items = given.pop("items")
    request = _request(**given)
    with connected(url) as client:
        if items is not None:
            request = request.model_copy(update={"items": items_of_service(client, app, items)})
        if slo is not None:
            client.request("POST", "/slo", json=plain(JointSlo.of(app, slo)))
        status = client.request("POST", f"/apps/{segment(app)}/start", json=plain(request))
    show(status, as_json, lambda answer: _told(read(Status, answer)))


def _request(**given: Any) -> StartRequest:
    """Of what was said alone: the rest is for the service to choose."""
    batching = {name: given.pop(name) for name in ("batch", "batch_bytes", "linger_ms")}
    if given["rate"] and given["pattern"]:
        raise click.UsageError("--rate and --pattern exclude each other")
    fields = {
        "options": parse_options(given.pop("options")),
        "input": given.pop("rate") or given["pattern"],
        "batching": batching_of(*batching.values()) if any(batching.values()) else None,
        "duration_s": given.pop("duration"),
        **given,
    }
    del fields["pattern"]
    try:
        return StartRequest(**{name: value for name, value in fields.items() if value})
    except ValidationError as error:
        raise click.UsageError(error.errors()[0]["msg"]) from error


def _told(status: Status) -> str:
    run = f", run {status.run}" if status.run else ""
    return f"{status.app}: {status.state}{run}"


@click.command()
@app_argument
@url_option
@json_option
def stop(app: str, url: str, as_json: bool) -> None:
    """Stops APP when all that it has accepted is delivered; its last results can still be read."""
    with connected(url) as client:
        status = client.request("POST", f"/apps/{segment(app)}/stop", timeout=STOP_S)
    show(status, as_json, lambda answer: render.status_view(read(Status, answer)))
