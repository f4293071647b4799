"""A runner of this process behind its port."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

from service.bodies.spec import RunSpec
from service.running import requests as r
from service.running.port import ANSWER_S
from service.running.runner import Runner

A = TypeVar("A")
METHODS: dict[type[Any], str] = {
    r.Start: "start",
    r.Stop: "stop",
    r.SetSlo: "set_slo",
    r.SetInput: "set_input",
    r.SetMode: "set_mode",
    r.SetCompositions: "set_compositions",
    r.Push: "push",
    r.ReadStatus: "status",
    r.ReadDecisions: "decisions",
    r.ReadNoChanges: "changes",
    r.ReadResults: "results",
    r.ReadCompositions: "compositions",
    r.ReadHistory: "history",
    r.ReadWhatIf: "what_if",
}
"""Until the runner takes requests itself."""


def called(request: r.Request[Any]) -> tuple[str, list[Any]]:
    return METHODS[type(request)], [getattr(request, each.name) for each in fields(request)]


class InProcessRunner:
    def __init__(self, spec: RunSpec) -> None:
        self._runner = Runner(spec)
        self._killed = False

    def ask(self, request: r.Request[A], *, timeout_s: float = ANSWER_S) -> A:
        if self._killed:
            raise ConnectionError("the runner was killed")
        method, args = called(request)
        answer: A = getattr(self._runner, method)(*args)
        return answer

    def alive(self) -> bool:
        return not self._killed

    def kill(self) -> None:
        if not self._killed:
            self._killed = True
            self._runner.stop(False, 0.0)
