"""Where runners live: in this process, or (``ray_host``) each in a Ray actor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from service.bodies.spec import RunSpec
from service.running.asking.port import RunnerPort
from service.running.checking.shipped import available_cores


class Host(Protocol):
    def spawn(self, name: str, spec: RunSpec) -> RunnerPort:
        """A new runner, constructed but not started. Raises: RecomposeError when the spec is refused."""

    def find(self, name: str) -> RunnerPort | None:
        """A runner that an earlier daemon left running."""

    def sweep(self, name: str) -> None:
        """Ends what runners of that name left for another one: there will be none."""

    def ready(self) -> bool: ...

    def cores(self) -> int:
        """Of all machines that workers may be on."""

    def close(self) -> None:
        """Lets go of the place; runners that can live on do."""


class LocalHost:
    """Runners of this process; they end with it. ``make`` is what makes one of its spec."""

    def __init__(self, make: Callable[[RunSpec], RunnerPort]) -> None:
        self._make = make

    def spawn(self, name: str, spec: RunSpec) -> RunnerPort:
        return self._make(spec)

    def find(self, name: str) -> RunnerPort | None:
        return None

    def sweep(self, name: str) -> None:
        """Nothing outlives a runner here."""

    def ready(self) -> bool:
        return True

    def cores(self) -> int:
        return available_cores()

    def close(self) -> None:
        """Its runners end with the process."""
