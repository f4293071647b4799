"""A daemon whose runners are fakes, up at once: for tests of everything above it."""

from __future__ import annotations

from collections.abc import Sequence

from apps import registry
from service.daemon.daemon import Daemon
from service.daemon.fakes.fake_runner import FakeRunner
from service.daemon.keeping.hosts import LocalHost
from service.daemon.keeping.ticker import Ticker, TurnOnce
from service.daemon.storing.store import DaemonStore


class PromptTicker(Ticker):
    """Takes the first turns at once instead of in a thread: the runner is up when ``start`` returns."""

    def start(self, turn: TurnOnce) -> None:
        turn()
        turn()


def fake_daemon(store: DaemonStore, names: Sequence[str] = ("synthetic",)) -> Daemon:
    """Of some registered apps."""
    apps = {name: registry.find(name) for name in names}
    return Daemon(apps, LocalHost(FakeRunner), store, make_ticker=PromptTicker)
