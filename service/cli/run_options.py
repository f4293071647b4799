"""What can be said to ``recompose run`` and ``recompose start``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_args

import click

from apps.input.classes import parse_amount
from compositions.batching import MOST_BYTES, MOST_LINGER_MS
from control.decisions import Mode
from control.strategies import STRATEGIES
from profiler.slo import parse_slo
from service.bodies.spec import DurabilityName
from service.cli.check import apps_option
from service.cli.names import app_argument
from service.cli.slo_options import budget_option, threshold_option
from service.cli.texts import as_usage, each_as_usage, parse_batch, parse_pattern, parse_rate, parse_sink, parse_source

C = TypeVar("C", bound=Callable[..., Any])

Options = tuple[Callable[[Any], Any], ...]

STREAM: Options = (
    click.option(
        "--slo",
        multiple=True,
        callback=each_as_usage(parse_slo, "--slo"),
        help="latency=400ms, p95=400ms, share95=400ms, throughput=10/s …; several times for all of them together.",
    ),
    budget_option,
    threshold_option,
    click.option("--composition", help="The first one; without --slo the only one."),
    click.option("--strategy", type=click.Choice(list(STRATEGIES)), default="model", show_default=True),
    click.option("--rate", callback=as_usage(parse_rate, "--rate"), help="Items a second; default: as they are taken."),
    click.option(
        "--pattern",
        callback=as_usage(parse_pattern, "--pattern"),
        help="wave:period=60,min=1,max=10, binary: …, custom:MODULE:FUNCTION of --apps",
    ),
    click.option(
        "--batch",
        callback=as_usage(parse_batch, "--batch"),
        help="Items that travel together: 64, pid:kp=10, slo-batch …; default: auto, as pays.",
    ),
    click.option("--batch-bytes", type=click.IntRange(1, MOST_BYTES), help="Of them together; default: 4194304."),
    click.option(
        "--linger-ms",
        type=click.FloatRange(0, MOST_LINGER_MS),
        help="Wait so long for others that are not due; default: 0.",
    ),
    click.option(
        "--items",
        callback=as_usage(parse_amount, "--items"),
        help="End after this many items; or a class of input that the app has: small, huge …",
    ),
    click.option("--duration", type=click.FloatRange(0, min_open=True), help="End after this many seconds."),
    click.option(
        "--source", callback=as_usage(parse_source, "--source"), help="KIND:PATH; default: the app's own data."
    ),
    click.option(
        "--sink",
        callback=as_usage(parse_sink, "--sink"),
        help="FORMAT:PATH, a table that Spark writes; sql:URL, redis://…, kafka://…, nats://…, mqtt://…, amqp://… or https://….",
    ),
    click.option("-o", "--option", "options", multiple=True, metavar="KEY=VALUE", help="Option of the app."),
)
"""Of a run here and of one in the service."""
RUN: Options = (
    app_argument,
    *STREAM,
    click.option("--out", type=click.Path(dir_okay=False), help="Results as JSON lines, in input order."),
    click.option("--telemetry", type=click.Path(file_okay=False), help="Folder for telemetry; see recompose report."),
    click.option("--dead-letters", type=click.Path(dir_okay=False), help="Items that failed, with their tracebacks."),
    apps_option,
    click.option("--fail-on-slo", is_flag=True, help="Exit code 5 when the SLO is not met at the end."),
    click.option("--json", "as_json", is_flag=True, help="The summary as JSON."),
    click.option("--pool", type=click.Choice(["ray", "local"]), default="ray", hidden=True),
)
START: Options = (
    app_argument,
    *STREAM,
    click.option("--overload", type=click.Choice(["block", "shed"]), help="A source that is too fast waits, or loses."),
    click.option(
        "--durability",
        type=click.Choice(get_args(DurabilityName)),
        help="What outlives a runner that dies; default: none.",
    ),
    click.option("--mode", type=click.Choice([mode.value for mode in Mode]), help="observe decides and does not act."),
)


def options(those: Options) -> Callable[[C], C]:
    """In the order of the help page."""

    def decorate(command: C) -> C:
        for option in reversed(those):
            command = option(command)
        return command

    return decorate
