"""What can be seen of the apps: from the runner while it is up, from what is remembered and stored when it is not."""

from __future__ import annotations

from collections.abc import Collection

from control.decisions import State
from service.bodies.decisions import KINDS, Decision, Entry, EntryKind, history_of
from service.bodies.refusals import NotFoundError, UnavailableError
from service.bodies.results import Result
from service.bodies.spec import RunSpec
from service.bodies.status import Rates, Sample, Status, of_wanted, resting
from service.daemon.keeping.restart_policy import Ended, Failed, Up, put_off
from service.daemon.keeping.watchdog import Watchdog
from service.daemon.runs import ALONE_S, OF_ALL_S, Runs, abreast
from service.daemon.storing.store import HISTORY_LIMIT, DaemonStore
from service.running.asking.requests import ReadHistory, ReadResults, ReadStatus
from service.running.asking.window import Window

KEPT_AFTER_END = {"stages", "items", "drain", "switches", "slo_met_share", "failure", "updated_at", "began_at"}
"""What the last status of a run still tells when it has ended; rates and workers are gone."""


class Observation:
    """Methods with a name raise NotFoundError for an app that is not registered."""

    def __init__(self, runs: Runs, store: DaemonStore) -> None:
        self._runs, self._store = runs, store

    def statuses(self) -> list[Status]:
        """As ``status``, of every registered app; a runner has a second to answer."""
        return abreast(lambda name: self.status(name, OF_ALL_S), list(self._runs.apps))

    def status(self, name: str, timeout_s: float = ALONE_S) -> Status:
        """From the runner; its last words when it does not answer; what is known without it when it is not up."""
        return self._found(name, timeout_s).model_copy(update={"alerts": self._store.alerts.of(name)})

    def _found(self, name: str, timeout_s: float) -> Status:
        watchdog = self._runs.last(name)
        if watchdog is None:
            return self._resting(name, State.STOPPED, None)
        remembered = watchdog.remembered.status
        match watchdog.condition:
            case Up():
                return _live(watchdog, timeout_s) or self._resting(name, State.STARTING, watchdog)
            case Ended() if remembered is not None:
                return self._resting(name, remembered.state, watchdog).model_copy(update=_kept(remembered))
            case Ended():
                return self._resting(name, State.STOPPED, watchdog)
            case Failed():
                return self._resting(name, State.FAILED, watchdog)
        return self._resting(name, State.STARTING, watchdog)

    def _resting(self, name: str, state: State, watchdog: Watchdog | None) -> Status:
        accepted = self._store.slo(name)
        spec = watchdog.wanted.spec if watchdog else RunSpec(app=name)
        spec = spec.model_copy(update={"slo": accepted.slo if accepted else None})
        last = next(iter(self._store.decisions(name, 1)), None)
        status = resting(self._runs.app(name), state, spec, last)
        if watchdog is None:
            return status
        deaths, held_up = watchdog.condition.deaths, put_off(watchdog.condition)
        told = {"failure": deaths.reason, "runner_restarts": deaths.restarts, "held_up": held_up}
        return status.model_copy(update=told)

    def decisions(
        self, name: str, limit: int, kinds: Collection[EntryKind] = KINDS, before: str | None = None
    ) -> list[Entry]:
        """Of all runs, newest first, with the runs of "no change" and the changes of the bundle size between them.
        ``before``: only what ended before this time."""
        self._bring(name)
        store, asked = self._store, (name, limit + 1, before)
        decisions = store.decisions(*asked) if "decision" in kinds else []
        runs = store.quiet_runs(*asked) if "no_change" in kinds else []
        sizes = store.size_changes(*asked) if "batching" in kinds else []
        return history_of(decisions, runs, sizes, limit)

    def decision(self, name: str, number: int) -> Decision:
        """Raises: NotFoundError also for one that is not kept."""
        self._bring(name)
        found = self._store.decisions(name, 1, through=number)
        if not found or found[0].id != number:
            kept = [each.id for each in self._store.decisions(name, HISTORY_LIMIT)]
            range_kept = f"{kept[-1]} to {kept[0]} are" if kept else "none is"
            raise NotFoundError(f"there is no decision {number} of {name}; {range_kept} kept")
        return found[0].listed()

    def _bring(self, name: str) -> None:
        """What the runner has decided and the store does not have."""
        up = self._runs.up(name)
        if up is not None:
            _pull(up)

    def results(self, name: str, cursor: ReadResults) -> list[Result]:
        """Of the present or the last run.

        Raises: UnavailableError when the runner does not answer; ResultsGoneError when what comes next is not kept.
        """
        watchdog = self._runs.last(name)
        if watchdog is None:
            return Window(None, given=0).read(cursor)
        if isinstance(watchdog.condition, Up):
            return watchdog.ask(cursor)
        return watchdog.remembered.window(watchdog.wanted.spec.run).read(cursor)

    def rates(self, last_s: float, most: int) -> list[Rates]:
        """Of every registered app; empty where its runner does not answer within a second."""
        asked = ReadHistory(last_s, most)
        return abreast(lambda name: Rates.of(name, self._known(name, asked)), list(self._runs.apps))

    def _known(self, name: str, asked: ReadHistory) -> list[Sample]:
        try:
            return self._history(name, asked, OF_ALL_S)
        except UnavailableError:
            return []

    def history(self, name: str, last_s: float) -> list[Sample]:
        """Of the present run; after its end, of its last quarter of an hour. Raises: as ``results``."""
        return self._history(name, ReadHistory(last_s), ALONE_S)

    def _history(self, name: str, asked: ReadHistory, timeout_s: float) -> list[Sample]:
        watchdog = self._runs.last(name)
        if watchdog is None:
            return []
        if isinstance(watchdog.condition, Up):
            return watchdog.ask(asked, timeout_s)
        return asked.thin(watchdog.remembered.history)


def _kept(last: Status) -> dict[str, object]:
    return {name: value for name, value in last if name in KEPT_AFTER_END & last.model_fields_set}


def _live(watchdog: Watchdog, timeout_s: float) -> Status | None:
    restarts = {"runner_restarts": watchdog.condition.deaths.restarts}
    try:
        status = watchdog.ask(ReadStatus(), timeout_s).model_copy(update=restarts)
        return status if watchdog.wanted.in_step else of_wanted(status, watchdog.wanted.spec)
    except UnavailableError as error:
        last = watchdog.remembered.status
        return last and last.model_copy(update={"failure": str(error), **restarts})


def _pull(watchdog: Watchdog) -> None:
    try:
        watchdog.history.pull_all()
    except Exception:  # the history that is stored is still true; the watchdog deals with the runner
        return
