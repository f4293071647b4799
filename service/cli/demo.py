"""``recompose demo``: keep an app at an objective while its input rises and falls, in this process. On Ray, rates and
objective follow from a profile of this machine; in threads, the stages only wait."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from compositions.errors import RecomposeError
from control.decisions import Mode
from profiler.slo import Slo
from service import logs
from service.cli import render
from service.cli.check import apps_option
from service.cli.follow import ending, first_is_noted
from service.cli.render import number
from service.cli.run import prints_on_stderr, summary_rows
from service.cli.texts import app_options
from service.runner.rpc import requests as ask
from service.runner.rpc.port import Patient
from service.runner.runner import Runner
from service.schemas.compositions import Choice
from service.schemas.spec import InputSpec, RunSpec
from service.schemas.status import Status

OPTIONS: Mapping[str, Mapping[str, object]] = {"ferret": {"top_k": 30}, "synthetic": {"compute": "wait"}}
"""Options with which two cores show a difference: Ferret's stage rank has three quarters of the work, as in Vogel et
al.; stages that wait scale beyond the number of cores."""
STEPS_S = (10.0, 45.0, 25.0)
"""Durations of low, high and low input on Ray, in seconds."""
LIMIT_S = 150.0
"""Latest end of the scenes on Ray, in seconds from the start, which includes start and profile."""
PROFILE_BY_S = 90.0
"""Latest end of the profile, in seconds: the scenes need the remaining time."""
WARM_S = 10.0
"""Time at the first guess of the low rate, in seconds, so that the profile is reliable enough for the plan."""
SAMPLES = 3
"""Executions of each stage after which the rates can first be guessed."""
WATCHED = 0.2
"""Share of the time with high input in which the manager only watches."""
HIGH_SHARE, OVERLOAD = 0.85, 1.2
"""High input as a share of the best composition's capacity and of the first one's; the lower value counts."""
BAR_COLUMNS, BAR_TARGETS = 40, 4
"""Width of a latency bar, and the latency that fills it, in multiples of the target."""
LINE_EVERY_S = 1.0
Steps = tuple[float, float, float]
"""Seconds of low, high and low input."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A part of the demo with one input rate, in items/s."""

    rate_per_s: float
    seconds: float
    mode: Mode
    caption: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The scenes, and the latency objective in milliseconds."""

    scenes: Sequence[Scene]
    target_ms: float


def scenes_of(low_per_s: float, high_per_s: float, steps_s: Steps) -> list[Scene]:
    """Return the scenes. Under high input the manager first only watches, so that the first composition is seen too."""
    low_s, high_s, last_s = steps_s
    return [
        Scene(low_per_s, low_s, Mode.OBSERVE, "A light load. The manager only watches"),
        Scene(high_per_s, WATCHED * high_s, Mode.OBSERVE, "A high load. The manager still only watches"),
        Scene(high_per_s, (1 - WATCHED) * high_s, Mode.AUTO, "The same load. Now the manager may change the app"),
        Scene(low_per_s, last_s, Mode.AUTO, "The light load again"),
    ]


IN_THREADS = Plan(scenes_of(50.0, 160.0, (4.0, 15.0, 7.0)), 100.0)


def plan_for(status: Status, choices: Sequence[Choice], steps_s: Steps) -> Plan:
    """Plan rates and SLO from a profile at rest.

    ``x1`` is the capacity of the active composition, ``x`` the highest predicted capacity of any composition. Low input
    is half of x1. High input lies above x1, where latency grows without bound if nothing changes, but leaves the best
    composition a margin. If no composition has more capacity than the active one, high input lies below x1.
    """
    assert status.composition is not None, "an app with a profile has an active composition"
    times_ms = {stage.name: stage.service_time_ms or 0.0 for stage in status.stages}
    groups = status.composition.groups
    x1 = min(1e3 * group.replicas / sum(times_ms[name] for name in group.stages) for group in groups)
    x = max([choice.predicted_throughput_per_s or x1 for choice in choices])
    resting_ms = max(status.latency_ms.p50 or 0.0, sum(times_ms.values()))
    return Plan(scenes_of(0.5 * x1, min(OVERLOAD * x1, HIGH_SHARE * x), steps_s), 2.5 * resting_ms)


@click.command()
@click.argument("app", required=False)
@apps_option
@app_options
@click.option("--steps", type=(float, float, float), default=STEPS_S, hidden=True, help="Low, high, low input, in s.")
def demo(app: str | None, apps_dirs: tuple[Path, ...], options: dict[str, Any], steps: Steps) -> None:
    """Show on this machine how Recompose keeps APP (default ferret) at an SLO while its input rises and falls.

    If APP is not given and Ray is not installed, show for half a minute an app whose stages wait in threads.
    """
    if app is None and not all(map(find_spec, ("ray", "zmq"))):
        in_threads()
        return
    name = app or "ferret"
    given = {**OPTIONS.get(name, {}), **options}
    show(name, given, "ray", lambda follow: follow.planned(steps), tuple(str(each.resolve()) for each in apps_dirs))


def in_threads(plan: Plan = IN_THREADS) -> None:
    say = render.console().print
    say("Ray is not installed, so three stages run in threads; each waits 8 ms for an item.")
    say("To see the demo on Ray, with image search: pip install 'recompose[ray,apps,samples]'")
    show("synthetic", OPTIONS["synthetic"], "local", lambda _: plan)


def show(
    app: str, options: Mapping[str, Any], pool: str, plan_of: Callable[[Follow], Plan], apps_dirs: tuple[str, ...] = ()
) -> None:
    """Run the app through the scenes of a plan, and print the summary. Raises: Ending if something went wrong."""
    logs.configure("warning")
    console = render.console()
    console.file = sys.stdout  # prints of the app go to stderr meanwhile
    spec = RunSpec.model_validate(
        {
            "app": app, "options": dict(options), "pool": pool, "apps_dirs": apps_dirs, "mode": Mode.OBSERVE,
            "input": {"rate_per_s": 1.0},
        }
    )  # fmt: skip
    with prints_on_stderr(pool), first_is_noted() as interrupted:
        runner = Runner(spec)
        follow = Follow(runner, console, interrupted)
        runner.ask(ask.Start())
        try:
            follow.through(plan_of(follow))
        finally:
            runner.ask(ask.Stop())
            runner.wait(LINE_EVERY_S)
    summary = runner.ask(ask.ReadSummary())
    console.print(render.table("", "", title="Summary", rows=[*summary_rows(summary), *follow.gain()]))
    if told := ending(summary, interrupted=interrupted(), fail_on_slo=False):
        raise told


class Follow:
    """Prints a line per second, and each change of the composition once. A Ctrl-C ends the demo."""

    def __init__(self, runner: Runner, console: Console, interrupted: Callable[[], bool]) -> None:
        self._runner, self._interrupted = runner, interrupted
        self._say = partial(console.print, soft_wrap=True)
        self._asked = Patient(runner)
        self._began_s = time.monotonic()
        self._target_ms: float | None = None
        self._printed = 0
        self._high: dict[Mode, str] = {}
        """Composition and latency at the end of the high input, by mode: only watching, or after choosing."""

    def planned(self, steps_s: Steps) -> Plan:
        """Find rates between which adapting pays, and plan. Raises: RecomposeError without a profile in time."""
        self._say("Measuring the stages at a low rate.")
        while any(stage.samples < SAMPLES for stage in self._for_s(LINE_EVERY_S).stages) and not self._over:
            if time.monotonic() - self._began_s > PROFILE_BY_S:
                raise RecomposeError(f"{self._runner.spec.app} was not measured within {PROFILE_BY_S:.0f} s")
        if self._over:
            return Plan((), 0.0)
        first = plan_for(self._asked.ask(ask.ReadStatus()), self._asked.ask(ask.ReadCompositions()), steps_s)
        self._runner.ask(ask.SetInput(InputSpec(rate_per_s=first.scenes[0].rate_per_s)))
        status = self._for_s(WARM_S)
        scale = min(1.0, (LIMIT_S - (time.monotonic() - self._began_s)) / sum(steps_s))
        low_s, high_s, last_s = (scale * each for each in steps_s)
        return plan_for(status, self._asked.ask(ask.ReadCompositions()), (low_s, high_s, last_s))

    def through(self, plan: Plan) -> None:
        """Set the objective, and play the scenes."""
        if self._over:
            return
        self._target_ms = round(plan.target_ms, 1)
        self._say(f"Objective: mean latency at most {self._target_ms:.0f} ms.")
        self._runner.ask(ask.SetSlo(Slo("latency", self._target_ms)))
        highest = max(scene.rate_per_s for scene in plan.scenes)
        for scene in plan.scenes:
            if self._over:
                return
            self._say(f"\n{scene.caption}: {scene.rate_per_s:.0f} items/s.")
            self._runner.ask(ask.SetMode(scene.mode))
            self._runner.ask(ask.SetInput(InputSpec(rate_per_s=scene.rate_per_s)))
            status = self._for_s(scene.seconds)
            if scene.rate_per_s == highest and status.composition is not None:
                self._high[scene.mode] = f"{status.composition.name}: {number(status.latency_ms.mean, ' ms', 0)}"

    def gain(self) -> list[tuple[str, str]]:
        """Return the latency under the high input before and after the manager chose, as a row of the summary."""
        return [("latency at high input", " → ".join(self._high.values()))] if self._high else []

    @property
    def _over(self) -> bool:
        return self._interrupted() or self._runner.wait(0)

    def _for_s(self, seconds: float) -> Status:
        """Show the app for this time, in seconds; return its last status."""
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0 and not self._over:
            self._runner.wait(min(LINE_EVERY_S, left_s))
            self._show(self._asked.ask(ask.ReadStatus()))
        return self._asked.ask(ask.ReadStatus())

    def _show(self, status: Status) -> None:
        decision = status.changes.last_decision
        if decision is not None and decision.id > self._printed and decision.from_ != decision.to:
            self._printed = decision.id
            if status.requested.mode is Mode.AUTO:
                self._say(f"  decision {decision.from_} → {decision.to}: {decision.reason}")
        self._say(self._line(status))

    def _line(self, status: Status) -> Text:
        composition, latency_ms = status.composition, status.latency_ms.mean
        if composition is None or latency_ms is None:
            return Text(f"  {status.state}")
        rates = f"in {number(status.input_rate_per_s, '', 0):>3}/s, out {number(status.throughput_per_s, '', 0):>3}/s"
        head = f"  {composition.notation}, {composition.workers} workers: {rates} "
        if self._target_ms is None:
            return Text(f"{head} {latency_ms:,.0f} ms")
        met = latency_ms <= self._target_ms
        color = "green" if met else "red"
        verdict = (f" {latency_ms:,.0f} ms, {'met' if met else 'missed'}", color)
        return Text.assemble(head, (bar(latency_ms / self._target_ms), color), verdict)


def bar(targets: float) -> str:
    """Return a latency, in multiples of the target, as a bar in which ``|`` marks the target."""
    at = BAR_COLUMNS // BAR_TARGETS
    filled = min(BAR_COLUMNS, round(targets * at))
    cells = "█" * filled + "·" * (BAR_COLUMNS - filled)
    return f"{cells[:at]}|{cells[at:]}"
