"""The phases of a demo and its output: profile, plan an objective, let the input rise and fall, check every result."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from control.decisions import Mode, State
from service.cli import render
from service.cli.demo_tally import Tally
from service.cli.http import Client, ServiceError, read, segment
from service.cli.watch_view import WatchView
from service.schemas.base import plain
from service.schemas.compositions import Choice
from service.schemas.decisions import Decision, Entry
from service.schemas.requests import LatencySlo, StartRequest
from service.schemas.results import Result
from service.schemas.spec import InputSpec
from service.schemas.status import Status

LINE_EVERY_S = 2.0
REMEMBERED = 6
SAID = 3


class DemoView:
    def __init__(self, app: str) -> None:
        self._app = app
        self._console = render.console()
        self._said: deque[str] = deque(maxlen=REMEMBERED)
        self._decided: deque[Decision] = deque(maxlen=REMEMBERED)
        self._live: Live | None = None
        self._line_due_s = 0.0
        self._began_s = time.monotonic()
        self._watch = WatchView(list)

    def ask(self, decisions: Callable[[], Sequence[Entry]]) -> None:
        """``decisions``: the newest ones, once the service is there."""
        self._watch = WatchView(decisions)

    def __enter__(self) -> DemoView:
        if self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, sentence: str) -> None:
        text = f"{self._elapsed()}  {sentence}"
        self._said.append(text)
        if self._live is None:
            self._console.print(text, soft_wrap=True)

    def show(self, status: Status) -> None:
        self._note(status.changes.last_decision)
        if self._live is not None:
            self._live.update(self._picture(status))
        elif time.monotonic() >= self._line_due_s:
            self._line_due_s = time.monotonic() + LINE_EVERY_S
            self._console.print(self._line(status), soft_wrap=True)

    def _note(self, decision: Decision | None) -> None:
        if decision is None or (self._decided and self._decided[-1].id == decision.id):
            return
        self._decided.append(decision)
        if self._live is None:
            self.say(f"decision {decision.from_} → {decision.to}: {decision.reason}")

    def _picture(self, status: Status) -> RenderableType:
        said = list(self._said)[-SAID:]
        return Group(Text("\n".join(said), no_wrap=True), self._watch.fitting(status, self._console, len(said)))

    def _line(self, status: Status) -> Text:
        composition = status.composition.name if status.composition else "–"
        rates = f"in {render.number(status.input_rate_per_s)}/s, out {render.number(status.throughput_per_s)}/s"
        latency = render.number(status.latency_ms.mean, " ms", 0)
        head = f"{self._elapsed()}  {status.state}: composition {composition}, {rates}, latency {latency}, SLO "
        return Text.assemble(head, render.slo_text(status))

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._began_s:6.1f} s"


class AppClient:
    """Raises: ServiceError from every call that the service refuses."""

    def __init__(self, client: Client, app: str) -> None:
        self.name = app
        self._client = client

    def start(self, request: StartRequest) -> Status:
        return read(Status, self._client.request("POST", self._path("apps", "start"), json=plain(request)))

    def stop(self) -> Status:
        """Stop the app, and return its status when everything that it accepted is delivered."""
        return read(Status, self._client.request("POST", self._path("apps", "stop")))

    def set_rate(self, rate_per_s: float) -> None:
        self._client.request("PUT", self._path("apps", "input"), json={"rate_per_s": rate_per_s})

    def set_mode(self, mode: Mode) -> None:
        self._client.request("PUT", self._path("apps", "mode"), json={"mode": mode})

    def set_latency(self, target_ms: float) -> None:
        slo = LatencySlo(app=self.name, metric="latency", target=target_ms)
        self._client.request("POST", "/slo", json=plain(slo))

    def statuses(self) -> Iterator[Status]:
        """Yield statuses as they come, until the service ends."""
        for status in self._client.stream(self._path("status", "stream")):
            yield read(Status, status)

    def decisions(self, limit: int) -> list[Entry]:
        return read(list[Entry], self._get("decisions", limit=limit))

    def results(self, after: int, limit: int) -> list[Result]:
        """Raises: ServiceError also for results that are gone."""
        return read(list[Result], self._get("results", after=after, limit=limit))

    def compositions(self) -> list[Choice]:
        return read(list[Choice], self._get("compositions"))

    def _get(self, topic: str, **params: int) -> Any:
        return self._client.get(self._path(topic), **params)

    def _path(self, topic: str, action: str = "") -> str:
        return f"/{topic}/{segment(self.name)}" + (f"/{action}" if action else "")


HIGH_SHARE, OVERLOAD = 0.85, 1.2
"""High input, as a share of the best composition's capacity and of the first one's: whichever is less."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Input rates in items/s, and the latency objective in milliseconds."""

    low_per_s: float
    high_per_s: float
    target_ms: float


def plan_for(status: Status, choices: Sequence[Choice]) -> Plan:
    """Rates and SLO from a profile at rest.

    ``x1`` is the most that the active composition could do, ``x`` the most that any is predicted to do. Low input is
    half of x1. High input lies above x1, where latency grows without bound if nothing changes, but leaves the best
    composition some room; where no composition can do more than the active one, it lies below x1.
    """
    assert status.composition is not None, "an app with a profile has an active composition"
    times_ms = {stage.name: stage.service_time_ms or 0.0 for stage in status.stages}
    groups = status.composition.groups
    x1 = min(1e3 * group.replicas / sum(times_ms[name] for name in group.stages) for group in groups)
    x = max([choice.predicted_throughput_per_s or x1 for choice in choices])
    resting_ms = max(status.latency_ms.p50 or 0.0, sum(times_ms.values()))
    return Plan(low_per_s=0.5 * x1, high_per_s=min(OVERLOAD * x1, HIGH_SHARE * x), target_ms=2.5 * resting_ms)


LIMIT_S = 170.0
"""The whole demo, start of the daemon included, ends within three minutes."""
PROFILE_BY_S = 90.0
"""Latest end of the profile: what comes after needs the rest."""
WATCHED = 0.2
"""Share of the time with high input in which the manager only watches."""
SAMPLES = 3
"""Executions of each stage until a first guess of the rates is possible."""
WARM_S = 10.0
"""At the first guess of the low rate, for a profile that the plan can rest on."""


class Interrupted(Exception):  # noqa: N818 - no error
    """The user wants it to end."""


class Course:
    """``interrupted`` is asked with every status: then what was accepted is delivered, and the demo sums up."""

    def __init__(
        self,
        app: AppClient,
        view: DemoView,
        began_s: float,
        steps_s: tuple[float, float, float],
        interrupted: Callable[[], bool],
    ) -> None:
        self._app, self._view = app, view
        self._began_s, self._steps_s = began_s, steps_s
        self._tally = Tally()
        self._statuses = app.statuses()
        self._interrupted = interrupted

    def run(self, options: Mapping[str, object]) -> Tally:
        self._view.say(f"starting {self._app.name}")
        self._app.start(StartRequest(options=dict(options), input=InputSpec(rate_per_s=1.0)))
        try:
            self._adapt()
        except Interrupted:
            self._view.say("interrupted")
        self._finish()
        return self._tally

    def _adapt(self) -> None:
        plan = self._plan()
        self._app.set_latency(round(plan.target_ms, 1))
        self._view.say(f"SLO: mean latency {plan.target_ms:.0f} ms")
        for rate, seconds, sentence, mode in self._steps(plan):
            self._view.say(sentence.format(rate))
            self._app.set_mode(mode)
            self._app.set_rate(rate)
            status = self._follow(seconds)
            if rate == plan.high_per_s:
                self._tally.note(mode, status)

    def _steps(self, plan: Plan) -> list[tuple[float, float, str, Mode]]:
        """Under the high input the manager may first only watch, so that the first composition is seen too."""
        low_s, high_s, last_s = self._steps_s
        steps = [
            (plan.low_per_s, low_s, "input is {:.1f} items/s; the manager only watches", Mode.OBSERVE),
            (
                plan.high_per_s,
                WATCHED * high_s,
                "input rises to {:.1f} items/s; the manager only watches",
                Mode.OBSERVE,
            ),
            (plan.high_per_s, (1 - WATCHED) * high_s, "input stays; now the manager adapts", Mode.AUTO),
            (plan.low_per_s, last_s, "input falls to {:.1f} items/s", Mode.AUTO),
        ]
        left_s = LIMIT_S - 20.0 - (time.monotonic() - self._began_s)
        scale = min(1.0, left_s / sum(self._steps_s))
        return [(rate, seconds * scale, sentence, mode) for rate, seconds, sentence, mode in steps]

    def _plan(self) -> Plan:
        """Waits for a profile and looks for the rates between which adapting pays."""
        self._view.say("measuring the stages at a gentle rate")
        first = plan_for(self._wait_for_profile(), self._app.compositions())
        self._app.set_rate(first.low_per_s)
        return plan_for(self._follow(WARM_S), self._app.compositions())

    def _wait_for_profile(self) -> Status:
        for status in self._live():
            if all(stage.samples >= SAMPLES for stage in status.stages):
                return status
            if time.monotonic() - self._began_s > PROFILE_BY_S:
                raise ServiceError(f"{self._app.name} gave no profile within {PROFILE_BY_S:.0f} s")
        raise ServiceError("the daemon ended")

    def _live(self) -> Iterator[Status]:
        """Statuses as they come, each shown and counted. Raises: ServiceError when the app has failed; Interrupted."""
        for status in self._statuses:
            if self._interrupted():
                raise Interrupted
            self._see(status)
            if status.state is State.FAILED:
                raise ServiceError(f"{self._app.name} failed: {status.health.failure}")
            yield status

    def _follow(self, seconds: float) -> Status:
        """Watches for so long. Returns the last status."""
        until_s = time.monotonic() + seconds
        for status in self._live():
            if time.monotonic() >= until_s:
                return status
        raise ServiceError("the daemon ended")

    def _see(self, status: Status) -> None:
        self._tally.see(status)
        if self._tally.due(time.monotonic()):
            self._tally.take(self._fetch())
        self._view.show(status)

    def _fetch(self) -> list[Result]:
        return self._app.results(self._tally.serials.last, 1000)

    def _finish(self) -> None:
        self._view.say("stopping: what was accepted is delivered first")
        status = self._app.stop()
        while found := self._fetch():
            self._tally.take(found)
        self._tally.finish(status, self._app.decisions(1000))
