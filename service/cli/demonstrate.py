"""``recompose demo``: on Ray where it is installed, else in threads of this process."""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import click
from rich.text import Text

from control.decisions import Mode
from profiler.slo import parse_slo
from service import logs
from service.cli import render
from service.cli.check import apps_option
from service.cli.render import number
from service.cli.run import summary_rows
from service.runner.rpc.port import Patient
from service.runner.rpc.requests import ReadStatus, ReadSummary, SetInput, SetMode, Start, Stop
from service.runner.runner import Runner
from service.schemas.spec import InputSpec, RunSpec
from service.schemas.status import Status

STEPS_S = (10.0, 45.0, 25.0)
"""Low, high and low input again, on Ray."""
TARGET_MS = 100
BAR_COLUMNS, BAR_TARGETS = 40, 4
"""Width of a latency bar, and the latency that fills it, in multiples of the target."""
LINE_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Scene:
    """A stretch of the demonstration in threads, with its input in items/s."""

    rate_per_s: float
    seconds: float
    mode: Mode
    caption: str


SCENES = (
    Scene(50.0, 4.0, Mode.OBSERVE, "A light load. The manager may only watch"),
    Scene(160.0, 5.0, Mode.OBSERVE, "More than the first composition can do. The manager may still only watch"),
    Scene(160.0, 10.0, Mode.AUTO, "The same load. Now the manager may choose the composition"),
    Scene(50.0, 7.0, Mode.AUTO, "The light load again"),
)


@click.command()
@click.argument("app", required=False)
@apps_option
@click.option("-o", "--option", "options", multiple=True, metavar="KEY=VALUE", help="Option of the app.")
@click.option(
    "--steps", type=(float, float, float), default=STEPS_S, hidden=True, help="Seconds of low, high, low input."
)
def demo(
    app: str | None, apps_dirs: tuple[Path, ...], options: tuple[str, ...], steps: tuple[float, float, float]
) -> None:
    """Show on this machine how APP (default ferret) is kept at an SLO while its input rises and falls.

    Without an APP and without Ray, it shows for half a minute an app in threads, whose stages wait.
    """
    if app is None and not all(map(find_spec, ("ray", "zmq", "fastapi", "httpx"))):
        in_threads()
    else:
        from service.cli.demo import on_ray  # here: it needs what the extra service brings

        on_ray(app or "ferret", apps_dirs, options, steps)


def in_threads(scenes: tuple[Scene, ...] = SCENES) -> None:
    logs.configure("warning")
    say = render.console().print
    lasts_s = sum(scene.seconds for scene in scenes)
    say(f"Ray or the service is not installed: three stages that wait 8 ms each run in threads, for {lasts_s:.0f} s.")
    say("The same on Ray, with image search: pip install 'recompose[ray,service,apps,samples]'")
    say(f"Objective: mean latency at most {TARGET_MS} ms.")
    runner = Runner(_spec(scenes))
    runner.ask(Start())
    follow = Follow(runner)
    try:
        for scene in scenes:
            say(f"\n{scene.caption}: {scene.rate_per_s:.0f} items/s.")
            runner.ask(SetMode(scene.mode))
            runner.ask(SetInput(InputSpec(rate_per_s=scene.rate_per_s)))
            follow.for_s(scene.seconds)
    except KeyboardInterrupt:
        say("interrupted; accepted items are delivered first")
    runner.ask(Stop())
    runner.wait(LINE_EVERY_S)
    say(render.summary_table(summary_rows(runner.ask(ReadSummary()))))


def _spec(scenes: tuple[Scene, ...]) -> RunSpec:
    return RunSpec.model_validate(
        {
            "app": "synthetic",
            "pool": "local",
            "options": {"compute": "wait"},
            "slo": parse_slo(f"latency={TARGET_MS}ms"),
            "mode": scenes[0].mode,
            "input": {"rate_per_s": scenes[0].rate_per_s},
        }
    )


class Follow:
    """Prints a line a second, and each change of the composition once."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._asked = Patient(runner)
        self._printed = 0
        """Identifier of the last decision that was printed."""

    def for_s(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0 and not self._runner.wait(min(LINE_EVERY_S, left_s)):
            status = self._asked.ask(ReadStatus())
            self._show_decision(status)
            render.console().print(_line(status), soft_wrap=True)

    def _show_decision(self, status: Status) -> None:
        decision = status.changes.last_decision
        if decision is None or decision.id <= self._printed or decision.from_ == decision.to:
            return
        self._printed = decision.id
        if status.requested.mode is Mode.AUTO:
            render.console().print(f"  decision {decision.from_} → {decision.to}: {decision.reason}", soft_wrap=True)


def _line(status: Status) -> Text:
    composition, latency_ms = status.composition, status.latency_ms.mean
    if composition is None or latency_ms is None:
        return Text(f"  {status.state}")
    met = latency_ms <= TARGET_MS
    rates = f"in {number(status.input_rate_per_s, '', 0):>3}/s, out {number(status.throughput_per_s, '', 0):>3}/s"
    head = f"  {composition.notation}, {composition.workers} workers: {rates} "
    verdict = (f" {latency_ms:,.0f} ms, {'met' if met else 'missed'}", "green" if met else "red")
    return Text.assemble(head, (bar(latency_ms), "green" if met else "red"), verdict)


def bar(latency_ms: float) -> str:
    """Return the latency as a bar in which ``|`` marks the target."""
    columns_per_ms = BAR_COLUMNS / BAR_TARGETS / TARGET_MS
    filled = min(BAR_COLUMNS, round(latency_ms * columns_per_ms))
    cells = "█" * filled + "·" * (BAR_COLUMNS - filled)
    at = BAR_COLUMNS // BAR_TARGETS
    return f"{cells[:at]}|{cells[at:]}"
