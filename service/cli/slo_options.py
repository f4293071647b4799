"""The options that ``run`` and ``slo`` share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import click

from compositions.errors import RecomposeError
from profiler.budget import Budget, parse_budget
from profiler.slo import Slo, together
from service.cli.texts import as_usage

budget_option = click.option(
    "--budget",
    callback=as_usage(parse_budget, "--budget"),
    help="What may be spent: workers=8, cores=3 or both, with a comma between.",
)
threshold_option = click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    default=0.2,
    show_default=True,
    help="How far beyond the target is a violation: with 0.2 a latency of 400 ms above 480 ms, 10/s below 8/s.",
)


def all_together(slos: Sequence[Slo], threshold: float, budget: Budget | None) -> Slo | None:
    """None for none. Raises: click.UsageError for a budget without an objective, or what cannot hold together."""
    if not slos:
        if budget is not None:
            raise click.UsageError("--budget is for an objective; say which with --slo")
        return None
    try:
        return together([replace(each, threshold=threshold) for each in slos], budget)
    except RecomposeError as error:
        raise click.UsageError(str(error)) from error
