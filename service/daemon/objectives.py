"""Objectives, planned loads and alerts of the apps: stored for the next run, in force at once in the present one."""

from time import time

from profiler.slo import INPUT_RATE, Slo
from service.daemon.alerts import Alerts
from service.daemon.checks import check_objectives
from service.daemon.observation import Observation
from service.daemon.runs import Runs
from service.daemon.store.store import DaemonStore, undone_by_failure
from service.runner.rpc.requests import SetPlannedLoads, SetSlo
from service.schemas.refusals import BadValueError, NotFoundError
from service.schemas.requests import AnnounceRequest
from service.schemas.slo import AcceptedSlo, StoredSlo
from service.schemas.spec import PlannedLoad
from service.schemas.status import Status

MOST_PLANNED = 1000
"""Planned loads that are stored for an app; of more, those that begin first."""


class Objectives:
    """Methods with a name raise NotFoundError for an app that is not registered."""

    def __init__(self, runs: Runs, store: DaemonStore, observation: Observation) -> None:
        self._runs, self._store, self._observation = runs, store, observation
        self.alerts = Alerts(runs.apps, observation.status, store.alerts)

    def set(self, name: str, slo: Slo) -> StoredSlo:
        """Raises: BadValueError when the strategy that runs cannot take it, UnavailableError when the runner does not
        answer, NotStoredError; then nothing was changed."""
        with self._runs.changing(name):
            present = self._runs.present(name)
            if present is not None:
                check_objectives(present.desired.spec.method.strategy, slo)
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
            raise NotFoundError(f"{name} has no SLO; set one with recompose slo, or POST /slo")
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

    def announce(self, name: str, asked: AnnounceRequest) -> Status:
        """Add a planned load. Raises: ConflictError for an app that does not run, BadValueError for what is over,
        NotStoredError, UnavailableError; then nothing was changed."""
        now, until_s = time(), asked.until.timestamp()
        if until_s <= now:
            raise BadValueError(f"until {asked.until.isoformat()} is over; an announcement is of what is to come")
        from_s = now if asked.from_ is None else asked.from_.timestamp()
        another = PlannedLoad(from_epoch_s=from_s, until_epoch_s=until_s, rate_per_s=asked.rate_per_s)
        with self._runs.changing(name):
            watchdog = self._runs.expect(name)
            watchdog.change(SetPlannedLoads(with_another(watchdog.desired.spec.announced, another, now)))
        return self._observation.status(name)

    def take_back(self, name: str) -> Status:
        """Remove all planned loads. Raises: as ``announce``."""
        with self._runs.changing(name):
            self._runs.expect(name).change(SetPlannedLoads(()))
        return self._observation.status(name)


def with_another(known: tuple[PlannedLoad, ...], another: PlannedLoad, now_epoch_s: float) -> tuple[PlannedLoad, ...]:
    """Return the planned loads with another one, which replaces one of the same span; those that are over go."""
    span = (another.from_epoch_s, another.until_epoch_s)
    others = (each for each in known if (each.from_epoch_s, each.until_epoch_s) != span)
    lasting = (each for each in (*others, another) if each.until_epoch_s > now_epoch_s)
    return tuple(sorted(lasting, key=lambda each: each.from_epoch_s)[:MOST_PLANNED])
