"""``recompose slo``: what is asked of an app."""

from __future__ import annotations

from dataclasses import replace

import click

from profiler.budget import Budget
from profiler.slo import Slo, Statistic, parse_slo
from service.bodies.base import plain
from service.bodies.requests import JointSlo
from service.bodies.slo import StoredSlo
from service.cli import render
from service.cli.clients import connected, json_option, show, url_option
from service.cli.http import read
from service.cli.slo_options import all_together, budget_option, threshold_option
from service.cli.texts import each_as_usage


@click.command()
@click.argument("app")
@click.argument(
    "objectives", nargs=-1, required=True, metavar="OBJECTIVE...", callback=each_as_usage(parse_slo, "OBJECTIVE")
)
@threshold_option
@budget_option
@click.option(
    "--statistic", type=click.Choice(["mean", "p50", "p95", "p99", "share"]), help="Of a latency; default mean."
)
@url_option
@json_option
def slo(
    app: str,
    objectives: tuple[Slo, ...],
    threshold: float,
    budget: Budget | None,
    statistic: Statistic | None,
    url: str,
    as_json: bool,
) -> None:
    """Sets the SLO of APP: latency=400ms, p95=400ms, share95=400ms, throughput=10/s or throughput=input_rate; several
    are to hold together."""
    asked = all_together([_with(each, statistic) for each in objectives], threshold, budget)
    assert asked is not None, "click asks for one at least"
    body = JointSlo.of(app, asked)
    with connected(url) as client:
        stored = client.request("POST", "/slo", json=plain(body))
    show(stored, as_json, lambda answer: render.slo_line(read(StoredSlo, answer)))


def _with(slo: Slo, statistic: Statistic | None) -> Slo:
    """Where ``--statistic`` says so. Raises: click.UsageError when the objective says another."""
    if not statistic or statistic == slo.statistic:
        return slo
    if slo.statistic != "mean":
        raise click.UsageError(f"--statistic {statistic} and {slo.statistic}=… exclude each other")
    return replace(slo, statistic=statistic)
