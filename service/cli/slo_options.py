"""The option that ``run`` and ``slo`` share."""

from __future__ import annotations

import click

threshold_option = click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    default=0.2,
    show_default=True,
    help="How far beyond the target is a violation: with 0.2 a latency of 400 ms above 480 ms, 10/s below 8/s.",
)
