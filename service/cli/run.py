"""``recompose run``: one run in one command, in this process, without a daemon."""

from __future__ import annotations

import json
from typing import Any

import click

from service import logs
from service.bodies.base import plain
from service.cli import render
from service.cli.endings import CODES, ending
from service.cli.follow import follow
from service.cli.prints import prints_on_stderr
from service.cli.run_options import RUN, options
from service.cli.run_spec import batching_of, spec_of
from service.cli.slo_options import all_together
from service.cli.summary_view import summary_rows
from service.running.asking.requests import ReadSummary
from service.running.runner import Runner


@click.command(help=f"Runs APP once: its data set once through, or --items, or --duration.\n\n{CODES}")
@options(RUN)
def run(as_json: bool, fail_on_slo: bool, **given: Any) -> None:
    logs.configure("warning")
    batching = batching_of(given.pop("batch"), given.pop("batch_bytes"), given.pop("linger_ms"))
    slo = all_together(given.pop("slo"), given.pop("threshold"), given.pop("budget"))
    spec = spec_of(slo=slo, batching=batching, **given)
    with prints_on_stderr(spec.pool):
        runner = Runner(spec)
        interrupted = follow(runner, as_json)
    summary = runner.ask(ReadSummary())
    if as_json:
        click.echo(json.dumps(plain(summary)))
    else:
        render.console().print(render.summary_table(summary_rows(summary)))
    if summary.first_error:
        click.echo(f"The first item that failed, {summary.first_error}", err=True)
    if told := ending(summary, interrupted=interrupted, fail_on_slo=fail_on_slo):
        raise told
