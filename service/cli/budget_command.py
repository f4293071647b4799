"""``recompose budget``: what all apps together may spend."""

from __future__ import annotations

from typing import Any

import click

from profiler.budget import MOST
from service.bodies.base import plain
from service.bodies.machine import MachineShares, TermsBody
from service.cli import render
from service.cli.clients import connected, json_option, show, url_option
from service.cli.http import Client, read
from service.cli.texts import each_as_usage

_ACCEPTED = "accepted are ferret=2 (priority 2) and ferret=2:1 (and 1 worker in any case)"
Terms = tuple[str, TermsBody]


def parse_terms(text: str) -> Terms:
    """Raises: ValueError with a sentence."""
    app, _, given = text.partition("=")
    priority, colon, floor = given.partition(":")
    try:
        figures = float(priority), float(floor) if colon else 0.0
    except ValueError:
        figures = 0.0, 0.0
    if not app or not 0 < figures[0] <= 1000 or not 0 <= figures[1] <= MOST:
        raise ValueError(f"{text!r} is not understood; {_ACCEPTED}")
    return app, TermsBody(priority=figures[0], floor=figures[1])


@click.command()
@click.argument("terms", nargs=-1, metavar="[APP=PRIORITY[:FLOOR]]...", callback=each_as_usage(parse_terms, "APP"))
@click.option("--workers", type=click.IntRange(1), help="Of all apps together.")
@click.option("--cores", type=click.FloatRange(0, min_open=True), help="Expected to be kept busy by all together.")
@click.option("--lift", is_flag=True, help="No budget any more: each app plans for itself.")
@url_option
@json_option
def budget(
    terms: tuple[Terms, ...], workers: int | None, cores: float | None, lift: bool, url: str, as_json: bool
) -> None:
    """Shows the budget of the machine and each app's share of it; sets what is given, and leaves the rest as it was."""
    given = {name: value for name, value in (("workers", workers), ("cores", cores)) if value is not None}
    if lift and (given or terms):
        raise click.UsageError("--lift goes with nothing else")
    with connected(url) as client:
        found = _changed(client, given, dict(terms), lift)
    show(found, as_json, lambda answer: render.budget_table(read(MachineShares, answer)))


def _changed(client: Client, given: dict[str, float], terms: dict[str, TermsBody], lift: bool) -> Any:
    if lift:
        client.request("DELETE", "/budget")
    found = client.get("/budget")
    if not given and not terms:
        return found
    present = read(MachineShares, found)
    before = {"workers": present.workers, "cores": present.cores}
    apps = {app: plain(each) for app, each in (present.apps | terms).items()}
    return client.request("PUT", "/budget", json={**before, **given, "apps": apps})
