"""Which entries of the list of decisions are wanted: the same options for every command that shows some."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from service.bodies.decisions import KINDS, Entry, EntryKind
from service.cli.http import Client, read, segment

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Which:
    kinds: tuple[EntryKind, ...]
    before: str | None
    limit: int

    def answer(self, client: Client, app: str) -> Any:
        """As the service gives it, newest first. Raises: ServiceError."""
        before = {"before": self.before} if self.before else {}
        return client.get(f"/decisions/{segment(app)}", limit=self.limit, kind=list(self.kinds), **before)

    def entries(self, client: Client, app: str) -> list[Entry]:
        """Raises: ServiceError."""
        return read(list[Entry], self.answer(client, app))


def which_decisions(most: int) -> Callable[[F], F]:
    """``--kind``, ``--before`` and ``--limit`` (``most`` where it is not given)."""

    def decorate(command: F) -> F:
        for option in reversed(_options(most)):
            command = option(command)
        return command

    return decorate


def _options(most: int) -> list[Callable[[F], F]]:
    return [
        click.option("--limit", type=click.IntRange(1, 1000), default=most, show_default=True, help="Decisions shown."),
        click.option(
            "--kind",
            "kinds",
            type=click.Choice(KINDS),
            multiple=True,
            help="Decisions of these kinds alone; may be given several times.",
        ),
        click.option("--before", help="Decisions before this time alone, such as 2026-11-20T10:00:00Z."),
    ]
