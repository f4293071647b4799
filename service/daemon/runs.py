"""The present or last run of each app: one watchdog each, asked one at a time or all at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TypeVar

from apps.contract import App
from service.bodies.refusals import ConflictError, NotFoundError, listed
from service.daemon.keeping.berth import Berth
from service.daemon.keeping.history_puller import HistoryPuller
from service.daemon.keeping.hosts import Host
from service.daemon.keeping.restart_policy import Starting, Up
from service.daemon.keeping.ticker import Ticker
from service.daemon.keeping.wanted import Wanted
from service.daemon.keeping.watchdog import Watchdog
from service.daemon.storing.store import DaemonStore, Started
from service.running.asking.port import ANSWER_S

T = TypeVar("T")
A = TypeVar("A")

ALONE_S = ANSWER_S
"""Longest wait for a runner that is asked for itself."""
OF_ALL_S = 1.0
"""Longest wait for one of many, so that one that is stuck does not hold up what is asked of all."""
THREADS = 64


class Runs:
    """Of the registered ``apps``. Thread-safe."""

    def __init__(
        self, apps: Mapping[str, type[App]], host: Host, store: DaemonStore, make_ticker: Callable[[str], Ticker]
    ) -> None:
        self.apps = apps
        self._host, self._store, self._make_ticker = host, store, make_ticker
        self._watchdogs: dict[str, Watchdog] = {}
        self._changing = {name: threading.Lock() for name in apps}

    def cores(self) -> int:
        """Of all machines that workers may be on."""
        return self._host.cores()

    def app(self, name: str) -> type[App]:
        """Raises: NotFoundError."""
        if name not in self.apps:
            raise NotFoundError(f"there is no app {name!r}; registered are {listed(self.apps)}")
        return self.apps[name]

    def changing(self, name: str) -> AbstractContextManager[bool]:
        """Held while what ``name`` runs, or is to run, is changed. Raises: NotFoundError."""
        self.app(name)
        return self._changing[name]

    # --- which there are ---

    def all(self) -> list[Watchdog]:
        return list(self._watchdogs.values())

    def all_present(self) -> list[Watchdog]:
        """Of the runs that are coming up or up."""
        return [each for each in self.all() if isinstance(each.condition, Starting | Up)]

    def last(self, name: str) -> Watchdog | None:
        """Of the present run or, when it is over, the last one. Raises: NotFoundError."""
        self.app(name)
        return self._watchdogs.get(name)

    def present(self, name: str) -> Watchdog | None:
        """Of the run that is coming up or up. Raises: NotFoundError."""
        last = self.last(name)
        return last if last is not None and isinstance(last.condition, Starting | Up) else None

    def up(self, name: str) -> Watchdog | None:
        """Of the run whose runner can be asked. Raises: NotFoundError."""
        last = self.last(name)
        return last if last is not None and isinstance(last.condition, Up) else None

    def expect(self, name: str) -> Watchdog:
        """As ``present``. Raises also: ConflictError."""
        found = self.present(name)
        if found is None:
            raise ConflictError(f"{name} is not running; start it with POST /apps/{name}/start")
        return found

    def pushed_into(self, name: str) -> Watchdog:
        """As ``expect``. Raises also: ConflictError when it reads its items from elsewhere."""
        watchdog = self.expect(name)
        source = watchdog.wanted.spec.source
        if not source.of.pushed:
            raise ConflictError(f"the source of {name} is {source.kind}; items are pushed into source push")
        return watchdog

    # --- a new one ---

    def begin(self, started: Started, *, attach: bool = False) -> None:
        """Has one brought up that is stored; ``attach``: where an earlier daemon left its runner."""
        app = started.spec.app
        berth = Berth(f"recompose-{self._store.instance}-{app}", self._host, attach=attach)
        history = HistoryPuller(app, berth, self._store, started.first_decision)
        watchdog = Watchdog(Wanted(started, self._store), berth, history, self._make_ticker(app))
        self._watchdogs[app] = watchdog
        watchdog.start()


def abreast(ask: Callable[[T], A], of: Sequence[T]) -> list[A]:
    """What ``ask`` says of each, in their order, asked at once. Raises: what ``ask`` raises of the first such one."""
    if len(of) < 2:
        return [ask(each) for each in of]
    with ThreadPoolExecutor(min(len(of), THREADS), thread_name_prefix="abreast") as asking:
        return list(asking.map(ask, of))
