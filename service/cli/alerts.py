"""``recompose alerts``: the rules of when somebody is told, and what was told."""

from __future__ import annotations

from pathlib import Path

import click
from pydantic import ValidationError
from rich.console import Group, RenderableType

from compositions.document.safe_yaml import read_yaml
from compositions.errors import RecomposeError
from service.bodies.alerts import AlertsInForce, AlertsRequest
from service.bodies.base import plain
from service.cli import render
from service.cli.clients import connected, json_option, show, url_option
from service.cli.http import read


@click.command()
@click.option(
    "--set",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML with rules (and webhook), in place of those in force.",
)
@url_option
@json_option
def alerts(file: Path | None, url: str, as_json: bool) -> None:
    """Shows the rules of when somebody is told, and the latest alerts; --set replaces the rules."""
    asked = None if file is None else _read(file)
    with connected(url) as client:
        found = client.get("/alerts") if asked is None else client.request("PUT", "/alerts", json=plain(asked))
        show(found, as_json, lambda found: _view(read(AlertsInForce, found)))


def _read(file: Path) -> AlertsRequest:
    """Raises: RecomposeError with the first fault and its place."""
    try:
        return AlertsRequest.model_validate(read_yaml(file.read_bytes()) or {})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise RecomposeError(f"{file}: {where}: {first['msg']}") from error


def _view(found: AlertsInForce) -> RenderableType:
    rules = render.table("about", "app", "when", title="Rules")
    for rule in found.rules:
        limits = plain(rule.model_dump(exclude={"about", "app"}))
        rules.add_row(rule.about, rule.app or "each", ", ".join(f"{name} {value:g}" for name, value in limits.items()))
    told = render.table("at", "app", "about", "", title="Alerts")
    for alert in found.alerts:
        told.add_row(render.clock(alert.at), alert.app, alert.about, alert.told)
    where = f"webhook: {found.webhook or 'none'}" + (f" ({found.webhook_fault})" if found.webhook_fault else "")
    return Group(rules, where, "", told)
