"""The daemon's core without HTTP: many apps, and the life that they share. Methods block; any thread may call them."""

import threading
from collections.abc import Callable
from dataclasses import replace

from service.daemon.apps import Apps, Owing
from service.daemon.compositions import Compositions, Specs
from service.daemon.nodes import Nodes
from service.daemon.objectives import Machine, Objectives
from service.daemon.observation import Observation
from service.daemon.runs import EACH_OF_ALL_S, Runs
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.restart_policy import fails_to_start
from service.daemon.supervision.runner_slot import Host
from service.daemon.supervision.ticker import Ticker
from service.runner.rpc.requests import Stop
from service.schemas.refusals import AppTypes, listed
from service.schemas.spec import RunSpec

CLOSE_TIMEOUT_S = 30.0
"""Maximum time to close the daemon, in seconds, as its own supervisor does not wait long."""


class Daemon:
    """The daemon. ``base`` contains what all runs share: directories of apps, kind of pool, telemetry."""

    def __init__(
        self,
        apps: AppTypes,
        host: Host,
        store: DaemonStore,
        base: RunSpec | None = None,
        *,
        make_ticker: Callable[[str], Ticker] = Ticker,
    ) -> None:
        self._specs = specs = Specs(apps, store, base or RunSpec(app=""), lambda: host.cluster().cores)
        self._runs = Runs(apps, host, store, make_ticker)
        self._host, self._store = host, store
        self.restored = False
        self.observation = Observation(self._runs, store)
        self.telemetry = base.ending.telemetry if base else None
        owing = Owing(self._runs, store, base.durable.journals if base else None)
        self.apps = Apps(self._runs, specs, store, self.observation, owing)
        self.objectives = Objectives(self._runs, store, self.observation)
        self.alerts = self.objectives.alerts
        self.observation.alerts = self.alerts.of
        self.compositions = Compositions(self._runs, specs, self.observation)
        self.nodes = Nodes(host, self.observation, self._runs, specs)
        self.machine = Machine(self._runs, store)
        turns = {"budget": self.machine.turn, "alerts": self.alerts.look, "nodes": self.nodes.look}
        self._tickers = [(make_ticker(name), turn) for name, turn in turns.items()]

    def registered(self) -> AppTypes:
        """Return all registered apps by name."""
        return self._runs.apps

    def restore(self) -> None:
        """Restore the running apps: attach to runners that outlived the last daemon, start the others."""
        for name, started in self._store.started().items():
            if name in self._runs.apps:
                self._runs.begin(replace(started, spec=self._specs.complete(started.spec)), attach=True)
        for ticker, turn in self._tickers:
            ticker.start(turn)
        self.restored = True

    def readiness(self) -> list[str]:
        """Return why the service is not ready, one sentence per reason; empty if it is ready."""
        if not self.restored:
            return ["the apps that were running are not restored yet"]
        failing = sorted(each.app for each in self._runs.all() if fails_to_start(each.condition))
        reasons = (
            None if self._host.ready() else "Ray does not answer",
            self._store.trouble(),
            f"starts of {listed(failing)} fail; /status says why" if failing else None,
        )
        return [reason for reason in reasons if reason is not None]

    def close(self, drain: bool = True) -> None:
        """Stop all runners in parallel; the apps stay registered as started, for the next daemon."""
        for ticker, _ in self._tickers:
            ticker.end()
        self._tickers[0][0].join(2 * EACH_OF_ALL_S)  # a turn of the budget calls runners
        self.alerts.end()
        how = Stop(drain, CLOSE_TIMEOUT_S)
        stops = [threading.Thread(target=each.stop, args=(how,)) for each in self._runs.all()]
        for stop in stops:
            stop.start()
        for stop in stops:
            stop.join()
