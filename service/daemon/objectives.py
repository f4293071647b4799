"""Objectives of the apps: stored for the next run, in force at once in the present one. And what goes with them: loads
that are to come, and who is told when something is missed."""

from __future__ import annotations

from profiler.slo import INPUT_RATE, Slo
from service.bodies.refusals import NotFoundError
from service.bodies.slo import AcceptedSlo, StoredSlo
from service.daemon.alerting.alerts import Alerts
from service.daemon.announcements import Announcements
from service.daemon.checks import check_objectives
from service.daemon.observation import Observation
from service.daemon.runs import Runs
from service.daemon.storing.store import DaemonStore
from service.daemon.storing.undo import undone_by_failure
from service.running.asking.requests import SetSlo


class Objectives:
    """Methods with a name raise NotFoundError for an app that is not registered."""

    def __init__(self, runs: Runs, store: DaemonStore, observation: Observation) -> None:
        self._runs, self._store, self._observation = runs, store, observation
        self.announcements = Announcements(runs, observation)
        self.alerts = Alerts(list(runs.apps), observation.status, store.alerts)

    def set(self, name: str, slo: Slo) -> StoredSlo:
        """Raises: BadValueError when the strategy that runs cannot take it, UnavailableError when the runner does not
        answer, NotStoredError; then nothing was changed."""
        with self._runs.changing(name):
            present = self._runs.present(name)
            if present is not None:
                check_objectives(present.wanted.spec.strategy, slo)
            before, accepted = self._store.slo(name), self._store.put_slo(name, slo)
            with undone_by_failure(lambda: self._store.put_back_slo(name, before)):
                self._tell(name, slo)
        return self._shown(accepted)

    def of(self, name: str) -> StoredSlo:
        """Raises: NotFoundError also when it has none."""
        return self._shown(self._accepted(name))

    def all(self) -> list[StoredSlo]:
        return [self._shown(each) for each in self._store.slos() if each.app in self._runs.apps]

    def remove(self, name: str) -> None:
        """Raises: NotFoundError also when it has none; else as ``set``."""
        with self._runs.changing(name):
            before = self._accepted(name)
            self._store.remove_slo(name)
            with undone_by_failure(lambda: self._store.put_back_slo(name, before)):
                self._tell(name, None)

    def _accepted(self, name: str) -> AcceptedSlo:
        self._runs.app(name)
        accepted = self._store.slo(name)
        if accepted is None:
            raise NotFoundError(f"{name} has no SLO; set one with POST /slo")
        return accepted

    def _tell(self, name: str, slo: Slo | None) -> None:
        watchdog = self._runs.present(name)
        if watchdog is not None:
            watchdog.change(SetSlo(slo))

    def _shown(self, accepted: AcceptedSlo) -> StoredSlo:
        return StoredSlo.stored(accepted, self._input_rate_per_s(accepted))

    def _input_rate_per_s(self, accepted: AcceptedSlo) -> float | None:
        if all(each.target != INPUT_RATE for each in accepted.slo.each) or self._runs.present(accepted.app) is None:
            return None
        return self._observation.status(accepted.app).input_rate_per_s
