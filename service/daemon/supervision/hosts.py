"""Hosts of runners: this process, or (``ray_host``) a Ray actor for each."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Protocol

from service.runner.rpc.port import RunnerPort
from service.runner.validation.resolution import available_cores
from service.schemas.spec import RunSpec

GivenUp = Callable[[], bool]
"""Whether nobody waits for the runner any more."""


def waited_for() -> bool:
    return False


class Host(Protocol):
    def spawn(self, name: str, spec: RunSpec, given_up: GivenUp = waited_for) -> RunnerPort:
        """A new runner, constructed but not started. Raises: RecomposeError when the spec is refused; NotNow when none
        can be had now; ConnectionError when it died, or was ``given_up`` meanwhile."""

    def find(self, name: str) -> RunnerPort | None:
        """A runner that an earlier daemon left running; it may be silent."""

    def sweep(self, name: str) -> None:
        """Ends what runners of that name left for another one: there will be none."""

    def ready(self) -> bool: ...

    def cores(self) -> int:
        """Return the number of cores of all machines that workers may be on."""

    def close(self) -> None:
        """Lets go of the place; runners that can live on do."""


class LocalHost:
    """Runners of this process; they end with it. ``make`` is what makes one of its spec."""

    def __init__(self, make: Callable[[RunSpec], RunnerPort]) -> None:
        self._make = make

    def spawn(self, name: str, spec: RunSpec, given_up: GivenUp = waited_for) -> RunnerPort:
        return self._make(spec)

    def find(self, name: str) -> RunnerPort | None:
        return None

    def sweep(self, name: str) -> None:
        """Nothing outlives a runner here."""

    def ready(self) -> bool:
        return True

    def cores(self) -> int:
        return ceil(available_cores())

    def close(self) -> None:
        """Do nothing: its runners end with the process."""
