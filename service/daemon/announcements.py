"""Loads that are to come: kept for the next run of an app's runner, believed at once in the present one."""

from __future__ import annotations

from time import time

from service.bodies.coming import with_another
from service.bodies.refusals import BadValueError
from service.bodies.requests import AnnounceRequest
from service.bodies.spec import Coming
from service.bodies.status import Status
from service.daemon.observation import Observation
from service.daemon.runs import Runs
from service.running.asking.requests import SetComing


class Announcements:
    """Methods raise: NotFoundError for an app that is not registered, ConflictError for one that does not run,
    NotStoredError, UnavailableError; then nothing was changed."""

    def __init__(self, runs: Runs, observation: Observation) -> None:
        self._runs, self._observation = runs, observation

    def announce(self, name: str, asked: AnnounceRequest) -> Status:
        """Raises also: BadValueError for what is over."""
        now, until_s = time(), asked.until.timestamp()
        if until_s <= now:
            raise BadValueError(f"until {asked.until.isoformat()} is over; an announcement is of what is to come")
        from_s = now if asked.from_ is None else asked.from_.timestamp()
        another = Coming(from_epoch_s=from_s, until_epoch_s=until_s, rate_per_s=asked.rate_per_s)
        with self._runs.changing(name):
            watchdog = self._runs.expect(name)
            watchdog.change(SetComing(with_another(watchdog.wanted.spec.announced, another, now)))
        return self._observation.status(name)

    def take_back(self, name: str) -> Status:
        """All of it."""
        with self._runs.changing(name):
            self._runs.expect(name).change(SetComing(()))
        return self._observation.status(name)
