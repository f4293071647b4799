"""How a runner is reached, wherever it lives: in this process, in a Ray actor, or made up for a test."""

from __future__ import annotations

from typing import Protocol, TypeVar

from service.running.asking.requests import Request

A = TypeVar("A")

ANSWER_S = 5.0
"""Longest wait for an answer of a healthy runner; its loop turns every few milliseconds."""


class RunnerPort(Protocol):
    """A runner seen from outside. May be used from any thread."""

    def ask(self, request: Request[A], *, timeout_s: float = ANSWER_S) -> A:
        """The runner's answer.

        Raises: RecomposeError when the runner refuses the request; ConnectionError when it is gone; TimeoutError when
        it does not answer within ``timeout_s``; another error when it is broken.
        """

    def alive(self) -> bool:
        """Whether it can still be asked."""

    def kill(self) -> None:
        """Ends it at once, and its workers with it; nothing is drained."""
