"""How the control plane reaches a runner, wherever it lives: in this process, or in a Ray actor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from compositions.model import Composition
from control.decisions import Mode
from profiler.slo import Slo
from service.bodies.compositions import Choice, WhatIf
from service.bodies.decisions import Decision, QuietRun
from service.bodies.results import Result, Summary
from service.bodies.spec import InputSpec, RunSpec
from service.bodies.status import Sample, Status

CALL_TIMEOUT_S = 5.0
"""Longest wait for an answer of a healthy runner; its loop turns every few milliseconds."""


class Runner(Protocol):
    """One running app: source, dispatcher, sink, monitor and manager. All methods may be called from any thread."""

    def start(self) -> None: ...

    def stop(self, drain: bool = True, timeout_s: float = 30) -> None: ...

    def status(self) -> Status: ...

    def set_slo(self, slo: Slo | None) -> None: ...

    def set_input(self, input: InputSpec) -> None: ...

    def set_mode(self, mode: Mode, composition: str | None) -> None: ...

    def set_compositions(self, compositions: tuple[Composition, ...]) -> None: ...

    def decisions(self, after_id: int, limit: int) -> list[Decision]:
        """Those with ``id > after_id``, oldest first."""

    def changes(self, limit: int) -> list[QuietRun]:
        """The latest runs of "no change"."""

    def results(self, after: int, limit: int) -> list[Result]:
        """Those with ``serial > after``, in order."""

    def push(self, value: Any) -> int:
        """Serial number of the item. Raises: BufferFull, or RecomposeError for a value the app refuses."""

    def compositions(self) -> list[Choice]: ...

    def history(self, last_s: float) -> list[Sample]:
        """One sample a second of the last ``last_s`` seconds, oldest first (``service/running/history.py``)."""

    def what_if(self, cores: int | None, replicas: int | None, rate_per_s: float | None) -> WhatIf:
        """Predictions under other circumstances; None means as it is now (``service/running/what_if.py``)."""

    def wait(self, timeout_s: float) -> bool:
        """True when the run has ended."""

    def summary(self) -> Summary: ...


class RunnerHandle(Protocol):
    """A runner seen from outside. ``call`` raises the method's own RecomposeError, or an OSError (ConnectionError,
    TimeoutError) or other exception when the runner is gone, silent or broken."""

    def call(self, method: str, *args: Any, timeout_s: float = CALL_TIMEOUT_S) -> Any: ...

    def alive(self) -> bool: ...

    def kill(self) -> None: ...


class Host(Protocol):
    """Where runners live."""

    def spawn(self, name: str, spec: RunSpec) -> RunnerHandle:
        """A new runner, constructed but not started. Raises: RecomposeError when the spec is refused."""

    def find(self, name: str) -> RunnerHandle | None:
        """A runner that an earlier daemon left running."""

    def ready(self) -> bool: ...

    def close(self) -> None:
        """Lets go of the place; runners that can live on do."""


class InProcessHandle:
    """A runner in this process, for ``run`` and for tests; it lives as long as the process, or until ``kill``."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner
        self._killed = False

    def call(self, method: str, *args: Any, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        if self._killed:
            raise ConnectionError("the runner was killed")
        return getattr(self._runner, method)(*args)

    def alive(self) -> bool:
        return not self._killed

    def kill(self) -> None:
        if not self._killed:
            self._killed = True
            self._runner.stop(False, 0.0)


class LocalHost:
    """Runners as plain objects; ``factory`` is the Runner class."""

    def __init__(self, factory: Callable[[RunSpec], Any]) -> None:
        self._factory = factory

    def spawn(self, name: str, spec: RunSpec) -> RunnerHandle:
        return InProcessHandle(self._factory(spec))

    def find(self, name: str) -> RunnerHandle | None:
        return None

    def ready(self) -> bool:
        return True

    def close(self) -> None:
        """Its runners end with the process."""
