"""``recompose slo``, ``announce``, ``budget`` and ``alerts``: objectives, planned loads, budget, alert rules."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import click
from pydantic import ValidationError
from rich.console import Group, RenderableType

from compositions.document.safe_yaml import read_yaml
from compositions.errors import RecomposeError
from profiler.budget import MOST, Budget
from profiler.slo import Slo, Statistic, parse_slo
from service.cli import render
from service.cli.clients import answered
from service.cli.http import Client, read, segment
from service.cli.texts import FILE, POSITIVE, Parsed, all_together, app_argument, budget_option, threshold_option
from service.schemas.base import plain
from service.schemas.refusals import refusal
from service.schemas.requests import AnnounceRequest, JointSlo
from service.schemas.slo import AlertsInForce, AlertsRequest, MachineShares, StoredSlo, TermsBody
from service.schemas.status import Status


@click.command()
@click.argument("app")
@click.argument("objectives", nargs=-1, required=True, metavar="OBJECTIVE...", type=Parsed(parse_slo))
@threshold_option
@budget_option
@click.option("--statistic", type=click.Choice(get_args(Statistic)), help="Statistic for latency=… (default mean).")
@answered(lambda answer: render.slo_line(read(StoredSlo, answer)))
def slo(
    client: Client,
    app: str,
    objectives: tuple[Slo, ...],
    threshold: float,
    budget: Budget | None,
    statistic: Statistic | None,
) -> Any:
    """Set the SLO of APP: latency=400ms, p95=400ms, share95=400ms, throughput=10/s or throughput=input_rate; several
    must be met together."""
    asked = all_together([_with(each, statistic) for each in objectives], threshold, budget)
    assert asked is not None, "click asks for one at least"
    return client.request("POST", "/slo", json=plain(JointSlo.of(app, asked)))


def _with(slo: Slo, statistic: Statistic | None) -> Slo:
    """Return the objective with ``--statistic``. Raises: click.UsageError if the objective names another statistic."""
    if not statistic or statistic == slo.statistic:
        return slo
    if slo.statistic != "mean":
        raise click.UsageError(f"--statistic {statistic} and {slo.statistic}=… exclude each other")
    return replace(slo, statistic=statistic)


FORMATS = ["%H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"]
_AT = click.DateTime(FORMATS)


@click.command()
@app_argument
@click.argument("rate_per_s", type=POSITIVE, metavar="[RATE]", required=False)
@click.option(
    "--from",
    "begins",
    type=_AT,
    help="Start of the load, in local time unless it has an offset. "
    "18:30 means the next 18:30, or the last 18:30 if that is nearer and the load has not ended.",
)
@click.option("--until", "ends", type=_AT, help="End of the load, in the format of --from.")
@click.option("--take-back", is_flag=True, help="Remove all planned loads.")
@answered(lambda answer: render.planned_text(read(Status, answer)))
def announce(
    client: Client, app: str, rate_per_s: float | None, begins: datetime | None, ends: datetime | None, take_back: bool
) -> Any:
    """Announce an upcoming load of RATE items/s for APP, so that workers are ready when it begins."""
    path = f"/apps/{segment(app)}/announce"
    if not take_back:
        asked = _asked(rate_per_s, begins, ends, datetime.now().astimezone())
        return client.request("POST", path, json=plain(asked))
    if any(each is not None for each in (rate_per_s, begins, ends)):
        raise click.UsageError("--take-back cannot be combined with RATE or other options")
    return client.request("DELETE", path)


def _asked(rate_per_s: float | None, begins: datetime | None, ends: datetime | None, now: datetime) -> AnnounceRequest:
    """Return the request. Raises: click.UsageError."""
    if rate_per_s is None or ends is None:
        raise click.UsageError("give RATE and --until, such as 80 --until 18:30, or --take-back")
    from_ = None if begins is None else _next(begins, now)
    if from_ is not None and _begun(begins, ends, from_, now):
        from_ = None
    until = _next(ends, from_ or now)
    try:
        return AnnounceRequest.model_validate({"from": from_, "until": until, "rate_per_s": rate_per_s})
    except ValidationError as error:
        raise click.UsageError(refusal(error)) from error


def _begun(begins: datetime | None, ends: datetime, coming: datetime, now: datetime) -> bool:
    """Return whether 18:30, said at 18:35, means five minutes ago; not if the load had ended by now."""
    if begins is None or begins.year > 1900:
        return False
    last = coming - timedelta(days=1)
    return now - last < coming - now and _next(ends, last) > now


def _next(at: datetime, after: datetime) -> datetime:
    """Return the next time after ``after`` with this time of the day (click puts it into the year 1900)."""
    if at.year > 1900:
        return at.astimezone()
    today = after.replace(hour=at.hour, minute=at.minute, second=0, microsecond=0)
    return today if today > after else today + timedelta(days=1)


_ACCEPTED = "give ferret=2 for priority 2, or ferret=2:1 to guarantee 1 worker as well"
Terms = tuple[str, TermsBody]


def parse_terms(text: str) -> Terms:
    """Parse ``APP=PRIORITY[:FLOOR]``. Raises: ValueError with a sentence."""
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
@click.argument("terms", nargs=-1, metavar="[APP=PRIORITY[:FLOOR]]...", type=Parsed(parse_terms))
@click.option("--workers", type=click.IntRange(1), help="Maximum number of workers of all apps together.")
@click.option("--cores", type=POSITIVE, help="Maximum number of cores that all apps together keep busy.")
@click.option("--lift", is_flag=True, help="Remove the budget; each app plans for itself.")
@answered(lambda answer: render.budget_table(read(MachineShares, answer)))
def budget(client: Client, terms: tuple[Terms, ...], workers: int | None, cores: float | None, lift: bool) -> Any:
    """Show the budget of the machine and each app's share; --workers and --cores set its limits."""
    given = {name: value for name, value in (("workers", workers), ("cores", cores)) if value is not None}
    if lift and (given or terms):
        raise click.UsageError("--lift cannot be combined with other options")
    if lift:
        client.request("DELETE", "/budget")
    found = client.get("/budget")
    if not given and not terms:
        return found
    present = read(MachineShares, found)
    before = {"workers": present.workers, "cores": present.cores}
    apps = {app: plain(each) for app, each in (present.apps | dict(terms)).items()}
    return client.request("PUT", "/budget", json={**before, **given, "apps": apps})


@click.command()
@click.option("--set", "file", type=FILE, help="YAML file with rules and webhook that replace the present ones.")
@answered(lambda found: _view(read(AlertsInForce, found)))
def alerts(client: Client, file: Path | None) -> Any:
    """Show the alert rules and the latest alerts; --set replaces the rules."""
    return client.get("/alerts") if file is None else client.request("PUT", "/alerts", json=plain(_read(file)))


def _read(file: Path) -> AlertsRequest:
    """Read the alert rules. Raises: RecomposeError with the first fault and its place."""
    try:
        return AlertsRequest.model_validate(read_yaml(file.read_bytes()) or {})
    except ValidationError as error:
        raise RecomposeError(f"{file}: {refusal(error)}") from error


def _view(found: AlertsInForce) -> RenderableType:
    rules = render.table("about", "app", "when", title="Rules")
    for rule in found.rules:
        limits = plain(rule.model_dump(exclude={"about", "app"}))
        rules.add_row(rule.about, rule.app or "each", ", ".join(f"{name} {value:g}" for name, value in limits.items()))
    rows = [(render.clock(alert.at), alert.app, alert.about, alert.told) for alert in found.alerts]
    told = render.table("at", "app", "about", "", title="Alerts", rows=rows)
    where = f"webhook: {found.webhook or 'none'}" + (f" ({found.webhook_fault})" if found.webhook_fault else "")
    return Group(rules, where, "", told)
