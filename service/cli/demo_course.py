"""The course of a demo: profile at a gentle rate, then an objective, then an input that rises and falls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from control.decisions import State
from service.bodies.requests import StartRequest
from service.bodies.results import Result
from service.bodies.spec import InputSpec
from service.bodies.status import Status
from service.cli.app_client import AppClient
from service.cli.demo_plan import Plan, plan_for
from service.cli.demo_tally import Tally
from service.cli.demo_view import DemoView
from service.cli.http import ServiceError

LIMIT_S = 170.0
"""The whole demo, start of the daemon included, ends within three minutes."""
PROFILE_BY_S = 90.0
"""Latest end of the profile: what comes after needs the rest."""
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
        for rate, seconds, word in self._steps(plan):
            self._view.say(f"input {word} {rate:.1f} items/s")
            self._app.set_rate(rate)
            self._follow(seconds)

    def _steps(self, plan: Plan) -> list[tuple[float, float, str]]:
        words = ("is", "rises to", "falls to")
        rates = (plan.low_per_s, plan.high_per_s, plan.low_per_s)
        left_s = LIMIT_S - 20.0 - (time.monotonic() - self._began_s)
        scale = min(1.0, left_s / sum(self._steps_s))
        lengths_s = [seconds * scale for seconds in self._steps_s]
        return list(zip(rates, lengths_s, words, strict=True))

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
                raise ServiceError(f"{self._app.name} failed: {status.failure}")
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
