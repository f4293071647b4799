"""The present or last run of each app: one watchdog each; runs are asked one at a time or all at once."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from apps.contract import App
from service.daemon.store.store import DaemonStore, Started
from service.daemon.supervision.desired_state import DesiredState
from service.daemon.supervision.history import HistoryPuller
from service.daemon.supervision.restart_policy import Starting, Stopping, Up
from service.daemon.supervision.runner_slot import Host, RunnerSlot, StartQueue
from service.daemon.supervision.ticker import Ticker
from service.daemon.supervision.watchdog import Watchdog
from service.runner.rpc.port import ANSWER_S
from service.schemas.refusals import AppTypes, ConflictError, NotFoundError, in_two_ways, no_app

T = TypeVar("T")
A = TypeVar("A")

ONE_APP_S = ANSWER_S
"""Maximum wait for a runner that is asked alone, in seconds."""
EACH_OF_ALL_S = 1.0
"""Maximum wait for one of many runners, in seconds, so that a stuck one does not delay the answer of all."""
THREADS = 64
PRESENT = (Starting, Up, Stopping)


class Runs:
    """The runs of the registered ``apps``. Thread-safe."""

    def __init__(self, apps: AppTypes, host: Host, store: DaemonStore, make_ticker: Callable[[str], Ticker]) -> None:
        self.apps = apps
        self._host, self._store, self._make_ticker = host, store, make_ticker
        self.cluster = host.cluster
        self._watchdogs: dict[str, Watchdog] = {}
        self._queue = StartQueue()
        self._changing = {name: threading.Lock() for name in apps}

    def app(self, name: str) -> type[App]:
        """Return the app. Raises: NotFoundError."""
        if name not in self.apps:
            raise NotFoundError(no_app(name, self.apps))
        return self.apps[name]

    def changing(self, name: str) -> AbstractContextManager[bool]:
        """Hold the lock under which the present or desired run of ``name`` is changed. Raises: NotFoundError."""
        self.app(name)
        return self._changing[name]

    @contextmanager
    def changing_within(self, name: str, timeout_s: float) -> Iterator[bool]:
        """Acquire the same lock within ``timeout_s``; yield False, without it, if another change holds it."""
        self.app(name)
        held = self._changing[name].acquire(timeout=timeout_s)
        try:
            yield held
        finally:
            if held:
                self._changing[name].release()

    def all(self) -> list[Watchdog]:
        return list(self._watchdogs.values())

    def last(self, name: str) -> Watchdog | None:
        """Return the watchdog of the present run or, if it is over, of the last one. Raises: NotFoundError."""
        self.app(name)
        return self._watchdogs.get(name)

    def present(self, name: str) -> Watchdog | None:
        """Return the watchdog of the run that is starting, up, or stopping. Raises: NotFoundError."""
        last = self.last(name)
        return last if last is not None and isinstance(last.condition, PRESENT) else None

    def up(self, name: str) -> Watchdog | None:
        """Return the watchdog of a run whose runner can be asked. Raises: NotFoundError."""
        last = self.last(name)
        return last if last is not None and isinstance(last.condition, Up | Stopping) else None

    def expect(self, name: str) -> Watchdog:
        """Return the same as ``present``. Raises also: ConflictError if there is no run."""
        found = self.present(name)
        if found is None:
            raise ConflictError(f"{name} is not running; {in_two_ways('start', name)}")
        return found

    def begin(self, started: Started, *, attach: bool = False) -> None:
        """Start a stored run; ``attach``: an earlier daemon may have left its runner."""
        app = started.spec.app
        slot = RunnerSlot(f"recompose-{self._store.instance}-{app}", self._host, self._queue, attach=attach)
        history = HistoryPuller(app, slot, self._store, started.first_decision)
        watchdog = Watchdog(DesiredState(started, self._store), slot, history, self._make_ticker(app))
        self._watchdogs[app] = watchdog
        watchdog.start()


def gather(ask: Callable[[T], A], of: Sequence[T]) -> list[A]:
    """Return the answers of ``ask`` for each, in order; all are asked at once. Raises: the first error."""
    if len(of) < 2:
        return [ask(each) for each in of]
    with ThreadPoolExecutor(min(len(of), THREADS), thread_name_prefix="gather") as asking:
        return list(asking.map(ask, of))
