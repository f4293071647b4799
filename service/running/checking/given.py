"""What a program hands to a run that no text can name: a class, what it iterates over, where results go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from apps import registry
from apps.carried import built_with, classes_of_main
from apps.contract import App
from apps.input.given import GivenItems
from apps.input.sources import Source
from service.bodies.spec import RunSpec


class Released(Protocol):
    """Results that may go, of items with consecutive serial numbers."""

    first: int
    values: Sequence[Any]
    error: str | None
    several: bool
    texts: Sequence[str] | None
    """Of the values as JSON, where they were made."""

    def items(self) -> Iterable[dict[str, Any]]:
        """Of each item ``serial`` and ``value``, ``values`` or ``error``."""


class Table(Protocol):
    """Where results go besides, and who may ask for a pause: it keeps what it could not store yet."""

    @property
    def has_room(self) -> bool: ...

    @property
    def failed(self) -> str | None: ...

    def start(self) -> None: ...

    def take(self, results: Released) -> None: ...

    def finish(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Given:
    """Of the program that runs it, in its own process; what is None is as the spec names it."""

    app: type[App] | None = None
    items: Iterable[Any] | None = None
    results: Table | None = None

    def maker(self, spec: RunSpec) -> Callable[[], App]:
        """Makes an instance, here and in workers."""
        if self.app is not None:
            return partial(built_with, classes_of_main(self.app), self.app, dict(spec.options))
        return partial(registry.create, spec.app, dict(spec.options), [Path(each) for each in spec.apps_dirs])

    def source(self) -> Source | None:
        return None if self.items is None else GivenItems(self.items, clock=monotonic)


NOTHING = Given()
