"""``recompose start`` and ``stop``: apps of a running service."""

from typing import Any

import click
from pydantic import ValidationError

from service.cli import render
from service.cli.clients import answered, items_of_service
from service.cli.http import Client, read, segment
from service.cli.run_options import START, fields_of
from service.cli.texts import app_argument, options
from service.schemas.base import plain
from service.schemas.refusals import refusal
from service.schemas.requests import StartRequest
from service.schemas.slo import BudgetBody
from service.schemas.status import Status

STOP_S = 620.0
"""Longer than the longest drain that the service waits for."""


@click.command()
@options(*START)
@answered(lambda answer: _told(read(Status, answer)))
def start(client: Client, app: str, **given: Any) -> Any:
    """Start APP in the service, on its own data unless --source names another; --slo replaces its objective."""
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
    help="Maximum time to deliver what was accepted, in seconds (default 600); what is left then is given up.",
)
@click.option("--now", is_flag=True, help="End the runner and its workers at once; nothing is delivered first.")
@answered(lambda answer: render.status_view(read(Status, answer)))
def stop(client: Client, app: str, timeout_s: float | None, now: bool) -> Any:
    """Stop APP after everything that it accepted is delivered; its last results can still be read. A stop that is under
    way is hurried by another one with --timeout or --now."""
    if now and timeout_s is not None:
        raise click.UsageError("--timeout and --now exclude each other")
    how = {"force": True} if now else {} if timeout_s is None else {"timeout_s": timeout_s}
    body = {"json": how} if how else {}
    return client.request("POST", f"/apps/{segment(app)}/stop", timeout=STOP_S + (timeout_s or 0.0), **body)
