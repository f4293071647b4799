"""``recompose demo``: daemon, app, SLO and an input that changes; a live view; a summary; the end.

Nothing is fixed to a machine: the app is profiled at a gentle rate first, then the rates and the SLO follow from what
its compositions are predicted to do here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from compositions.errors import RecomposeError
from service.cli import render
from service.cli.check import apps_option
from service.cli.daemon import Daemon
from service.cli.demo_tally import Tally
from service.cli.demo_view import DemoView
from service.cli.http import Client, ServiceError, segment
from service.cli.texts import parse_options

LIMIT_S = 170.0
"""The whole demo, start of the daemon included, ends within three minutes."""
PROFILE_BY_S = 90.0
"""Latest end of the profile: what comes after needs the rest."""
STEPS_S = (10.0, 45.0, 25.0)
"""Low, high and low input again."""
SAMPLES = 3
"""Executions of each stage until a first guess of the rates is possible."""
WARM_S = 10.0
"""At the first guess of the low rate, for a profile that the plan can rest on."""
OPTIONS: dict[str, dict[str, Any]] = {"ferret": {"top_k": 30}, "synthetic": {"compute": "wait"}}
"""So that there is something to see on two cores: Ferret's rank has three quarters of the work, as in Vogel et al.;
stages that wait scale beyond the cores."""
HIGH_SHARE, OVERLOAD = 0.85, 1.2
"""High input, as a share of the best composition's capacity and of the first one's: whichever is less."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Input rates in items/s, and the latency objective in milliseconds."""

    low_per_s: float
    high_per_s: float
    target_ms: float


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
        with Daemon(apps_dirs) as daemon:
            tally = Demo(daemon.client, app, view, began_s, steps).run(given)
            view.say("ending the daemon")
    render.console().print(render.summary_table(tally.rows()))
    if tally.damage:
        raise RecomposeError(f"the stream was damaged: {tally.damage}")


class Demo:
    def __init__(
        self, client: Client, app: str, view: DemoView, began_s: float, steps_s: tuple[float, float, float]
    ) -> None:
        self._client, self._app, self._view = client, app, view
        self._began_s, self._steps_s = began_s, steps_s
        self._tally = Tally()
        self._statuses = client.stream(f"/status/{segment(app)}/stream")

    def run(self, options: dict[str, Any]) -> Tally:
        self._view.say(f"starting {self._app}")
        self._post("start", {"options": options, "input": {"rate_per_s": 1.0}})
        plan = self._plan()
        self._client.request("POST", "/slo", json=self._slo(plan))
        self._view.say(f"SLO: mean latency {plan.target_ms:.0f} ms")
        for rate, seconds, word in self._steps(plan):
            self._view.say(f"input {word} {rate:.1f} items/s")
            self._set_rate(rate)
            self._follow(seconds)
        self._finish()
        return self._tally

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
        first = self._plan_from(self._wait_for_profile())
        self._set_rate(first.low_per_s)
        return self._plan_from(self._follow(WARM_S))

    def _plan_from(self, status: dict[str, Any]) -> Plan:
        return plan_for(status, self._client.get(f"/compositions/{segment(self._app)}"))

    def _set_rate(self, rate_per_s: float) -> None:
        self._client.request("PUT", f"/apps/{segment(self._app)}/input", json={"rate_per_s": rate_per_s})

    def _wait_for_profile(self) -> dict[str, Any]:
        for status in self._live():
            if all(stage["samples"] >= SAMPLES for stage in status["stages"]):
                return status
            if time.monotonic() - self._began_s > PROFILE_BY_S:
                raise ServiceError(f"{self._app} gave no profile within {PROFILE_BY_S:.0f} s")
        raise ServiceError("the daemon ended")

    def _live(self) -> Iterator[dict[str, Any]]:
        """Statuses as they come, each shown and counted. Raises: ServiceError when the app has failed."""
        for status in self._statuses:
            self._see(status)
            if status["state"] == "failed":
                raise ServiceError(f"{self._app} failed: {status.get('failure')}")
            yield status

    def _slo(self, plan: Plan) -> dict[str, Any]:
        return {"app": self._app, "metric": "latency", "target": round(plan.target_ms, 1)}

    def _follow(self, seconds: float) -> dict[str, Any]:
        """Watches for so long. Returns the last status."""
        until_s = time.monotonic() + seconds
        for status in self._live():
            if time.monotonic() >= until_s:
                return status
        raise ServiceError("the daemon ended")

    def _see(self, status: dict[str, Any]) -> None:
        self._tally.see(status)
        self._tally.take(self._results())
        self._view.show(status)

    def _results(self) -> list[dict[str, Any]]:
        """New results, asked for once a second."""
        if not self._tally.due(time.monotonic()):
            return []
        return self._fetch()

    def _fetch(self) -> list[dict[str, Any]]:
        after = self._tally.last_serial
        return list(self._client.get(f"/results/{segment(self._app)}", after=after, limit=1000))

    def _finish(self) -> None:
        self._view.say("stopping: what was accepted is delivered first")
        status = self._post("stop", None)
        while found := self._fetch():
            self._tally.take(found)
        self._tally.finish(status, self._client.get(f"/decisions/{segment(self._app)}", limit=1000))

    def _post(self, action: str, body: dict[str, Any] | None) -> dict[str, Any]:
        answer: dict[str, Any] = self._client.request("POST", f"/apps/{segment(self._app)}/{action}", json=body)
        return answer


def plan_for(status: dict[str, Any], choices: list[dict[str, Any]]) -> Plan:
    """Rates and SLO from a profile at rest.

    ``x1`` is the most that the active composition could do, ``x`` the most that any is predicted to do. Low input is
    half of x1. High input lies above x1, where latency grows without bound if nothing changes, but leaves the best
    composition some room; where no composition can do more than the active one, it lies below x1.
    """
    times_ms = {stage["name"]: stage["service_time_ms"] for stage in status["stages"]}
    groups = status["composition"]["groups"]
    x1 = min(1e3 * group["replicas"] / sum(times_ms[name] for name in group["stages"]) for group in groups)
    x = max([choice["predicted_throughput_per_s"] or x1 for choice in choices])
    resting_ms = max(status["latency_ms"]["p50"] or 0.0, sum(times_ms.values()))
    return Plan(low_per_s=0.5 * x1, high_per_s=min(OVERLOAD * x1, HIGH_SHARE * x), target_ms=2.5 * resting_ms)
