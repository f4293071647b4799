"""``recompose demo``: daemon, app, SLO and an input that changes; a live view; a summary; the end.

Nothing is fixed to a machine: the app is profiled at a gentle rate first, then the rates and the SLO follow from what
its compositions are predicted to do here.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import click

from compositions.errors import RecomposeError
from service.cli import render
from service.cli.app_client import AppClient
from service.cli.check import apps_option
from service.cli.daemon import Daemon
from service.cli.demo_course import Course
from service.cli.demo_view import DemoView
from service.cli.endings import INTERRUPTED, Ending
from service.cli.interrupts import first_is_noted
from service.cli.texts import parse_options
from service.cli.watch_view import DECISIONS

STEPS_S = (10.0, 45.0, 25.0)
"""Low, high and low input again."""
OPTIONS: Mapping[str, Mapping[str, object]] = {"ferret": {"top_k": 30}, "synthetic": {"compute": "wait"}}
"""So that there is something to see on two cores: Ferret's rank has three quarters of the work, as in Vogel et al.;
stages that wait scale beyond the cores."""


@click.command()
@click.argument("app", default="ferret")
@apps_option
@click.option("-o", "--option", "options", multiple=True, metavar="KEY=VALUE", help="Option of the app.")
@click.option(
    "--steps", type=(float, float, float), default=STEPS_S, hidden=True, help="Seconds of low, high, low input."
)
def demo(app: str, apps_dirs: tuple[Path, ...], options: tuple[str, ...], steps: tuple[float, float, float]) -> None:
    """Shows on this machine how APP is kept at an SLO while its input rises and falls."""
    began_s = time.monotonic()
    given = {**OPTIONS.get(app, {}), **parse_options(options)}
    with DemoView(app) as view:
        view.say("starting the daemon and Ray")
        with Daemon(apps_dirs) as daemon, first_is_noted() as interrupted:
            seen = AppClient(daemon.client, app)
            view.ask(lambda: seen.decisions(DECISIONS))
            tally = Course(seen, view, began_s, steps, interrupted).run(given)
            view.say("ending the daemon")
    render.console().print(render.summary_table(tally.rows()))
    if tally.damage:
        raise RecomposeError(f"the stream was damaged: {tally.damage}")
    if interrupted():
        raise Ending(INTERRUPTED, "interrupted; what was accepted is delivered")
