"""``recompose run``: one run in one command, in this process, without a daemon."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import click

from profiler.slo import parse_slo
from service import logs
from service.cli import render
from service.cli.follow import CODES, ending, follow
from service.cli.render import number
from service.cli.run_options import RUN, spec_of
from service.cli.texts import all_together, options
from service.logs import Printed, PrintedHere
from service.runner.rpc.requests import ReadSummary
from service.runner.runner import Runner
from service.schemas.base import plain
from service.schemas.results import Summary


@click.command(help=f"Run APP once, until its input ends, or --items or --duration is reached.\n\n{CODES}")
@options(*RUN)
def run(as_json: bool, fail_on_slo: bool, **given: Any) -> None:
    logs.configure("warning")
    slo = all_together([parse_slo(each) for each in given.pop("slo")], given.pop("threshold"), given.pop("budget"))
    spec = spec_of(slo=slo, **given)
    with prints_on_stderr(spec.pool):
        runner = Runner(spec)
        interrupted = follow(runner, as_json)
    summary = runner.ask(ReadSummary())
    if as_json:
        click.echo(json.dumps(plain(summary)))
    else:
        render.console().print(render.table("", "", title="Summary", rows=summary_rows(summary)))
    if summary.first_error:
        click.echo(f"The first item that failed, {summary.first_error}", err=True)
    if told := ending(summary, interrupted=interrupted, fail_on_slo=fail_on_slo):
        raise told


def summary_rows(summary: Summary) -> list[tuple[str, str]]:
    items = dict(summary.items) if summary.items else {}
    settle = ", ".join(number(each, " s") for each in summary.settle_s)
    share = summary.slo_met_share
    return [
        *((each.objective, each.value) for each in summary.objectives),
        *_asked_for(summary),
        ("items", ", ".join(f"{name} {count:,}" for name, count in items.items())),
        ("time", number(summary.elapsed_s, " s")),
        ("throughput, without the start", number(summary.throughput_per_s, "/s", 2)),
        ("latency, mean at the end", number(summary.latency_ms, " ms")),
        ("workers", "–" if summary.workers is None else str(summary.workers)),
        ("compositions used", ", ".join(summary.compositions_used)),
        *_bundles(summary),
        ("switches", str(summary.switches)),
        ("time to settle", settle or "–"),
        ("SLO met", "–" if share is None else f"{share:.0%} of the time"),
    ]


def _bundles(summary: Summary) -> list[tuple[str, str]]:
    """Return a row with the bundle sizes, unless every item travelled alone."""
    sizes = [f"{each:,}" for each in summary.bundle_sizes]
    shown = ", then ".join(sizes if len(sizes) < 6 else [*sizes[:2], f"{len(sizes) - 3} others", sizes[-1]])
    return [("maximum bundle sizes", shown)] if max(summary.bundle_sizes, default=1) > 1 else []


def _asked_for(summary: Summary) -> list[tuple[str, str]]:
    """Return a row with the offered load, unless all of it was delivered."""
    delivered = summary.items.delivered if summary.items else 0
    if summary.offered is None or summary.offered == summary.admitted == delivered:
        return []
    counts = {"offered": summary.offered, "admitted": summary.admitted, "missed": summary.missed}
    told = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count is not None)
    late = f"; the next item is overdue by {number(summary.lag_s, ' s')}" if summary.lag_s else ""
    return [("load", told + late)]


@contextmanager
def prints_on_stderr(pool: str) -> Iterator[None]:
    """Redirect the prints of this process and, with pool ``ray``, of the Ray cluster that it joins."""
    printed = Printed(lambda who, line: click.echo(f"({who}) {line}", err=True))
    try:
        with redirect_stdout(PrintedHere(printed)):
            if pool == "ray":
                with render.doing("starting Ray on this machine"):
                    from runtime.pools.ray import cluster

                    cluster.connect(hear=printed.line)
            yield
            if pool == "ray":
                cluster.hear_out()
    finally:
        printed.close()
