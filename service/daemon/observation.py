"""Observe the apps: ask the runner while it is up; otherwise use remembered and stored data."""

from collections.abc import Callable, Collection
from contextlib import suppress

from apps.registry import is_bundled
from control.decisions import State
from service.daemon.runs import EACH_OF_ALL_S, ONE_APP_S, Runs, gather
from service.daemon.store.store import HISTORY_LIMIT, DaemonStore
from service.daemon.supervision.restart_policy import Ended, Failed, Stopping, Up, waits_for
from service.daemon.supervision.watchdog import Watchdog
from service.runner.rpc.requests import ReadHistory, ReadResults, ReadStatus
from service.runner.rpc.window import Window
from service.runner.validation.resolution import follows_itself
from service.schemas import status as bodies
from service.schemas.decisions import KINDS, Decision, Entry, EntryKind, history_of
from service.schemas.figures import Demand
from service.schemas.refusals import NotFoundError, UnavailableError
from service.schemas.results import Result
from service.schemas.slo import Alert
from service.schemas.spec import RunSpec
from service.schemas.status import RunnerHealth, Sample, Status, Supervision


class Observation:
    """The users' view of the apps. Methods with a name raise NotFoundError if the app is not registered."""

    def __init__(self, runs: Runs, store: DaemonStore) -> None:
        self._runs, self._store = runs, store
        self.tables: Callable[[], bodies.TablesStatus | None] = lambda: None
        self.alerts: Callable[[str], list[Alert]] = lambda name: []

    def statuses(self, *, asked_for: bool = False) -> list[Status]:
        """Return each app's status, if it answers within a second. ``asked_for``: omit bundled apps that never ran."""
        apps = self._runs.apps.items()
        names = [name for name, app in apps if not (asked_for and is_bundled(app) and self._runs.last(name) is None)]
        return gather(lambda name: self.status(name, EACH_OF_ALL_S), names)

    def status(self, name: str, timeout_s: float = ONE_APP_S) -> Status:
        """Return the runner's status; its last one if it does not answer; the known part if there is no runner."""
        watchdog, alerts = self._runs.last(name), self.alerts(name)
        if watchdog is None:
            return self._resting(name, State.STOPPED, None).but(supervision=Supervision(alerts=alerts))
        supervision = Supervision(alerts=alerts, runner_restarts=watchdog.condition.deaths.restarts)
        status = self._of_run(name, watchdog, timeout_s)
        requested = status.requested.model_copy(update={"slo_note": follows_itself(watchdog.desired.spec)})
        return self._with_tables(status).but(supervision=supervision, requested=requested)

    def _with_tables(self, status: Status) -> Status:
        resources, tables = status.resources, self.tables()
        if resources.telemetry is None or tables is None:
            return status
        telemetry = resources.telemetry.model_copy(update={"tables": tables})
        return status.but(resources=resources.model_copy(update={"telemetry": telemetry}))

    def _of_run(self, name: str, watchdog: Watchdog, timeout_s: float) -> Status:
        last = watchdog.remembered.status
        match watchdog.condition:
            case Up():
                return _live(watchdog, timeout_s) or self._resting(name, State.STARTING, watchdog)
            case Stopping():
                known = _live(watchdog, timeout_s) or self._resting(name, State.STOPPING, watchdog)
                return known.but(state=State.STOPPING)
            case Ended() if last is not None:
                return _after_end(self._resting(name, last.state, watchdog), last)
            case Ended():
                return self._resting(name, State.STOPPED, watchdog)
            case Failed():
                return self._resting(name, State.FAILED, watchdog)
        return self._resting(name, State.STARTING, watchdog)

    def _resting(self, name: str, state: State, watchdog: Watchdog | None) -> Status:
        accepted = self._store.slo(name)
        spec = watchdog.desired.spec if watchdog else RunSpec(app=name)
        last, condition = next(iter(self._store.decisions(name, 1)), None), watchdog and watchdog.condition
        known = {"failure": condition.deaths.reason, "held_up": waits_for(condition)} if condition else {}
        spec = spec.but(slo=accepted.slo if accepted else None)
        return bodies.resting(self._runs.app(name), state, spec, last, RunnerHealth.model_validate(known))

    def decisions(
        self, name: str, limit: int, kinds: Collection[EntryKind] = KINDS, before: str | None = None
    ) -> list[Entry]:
        """Return the entries of all runs, newest first. ``before``: only those that ended before this time."""
        self._bring(name)
        store, asked = self._store, (name, limit + 1, before)
        decisions = store.decisions(*asked) if "decision" in kinds else []
        runs = store.quiet_runs.latest(*asked) if "no_change" in kinds else []
        sizes = store.size_changes.latest(*asked) if "batching" in kinds else []
        return history_of(decisions, runs, sizes, limit)

    def decision(self, name: str, number: int) -> Decision:
        """Return one decision. Raises: NotFoundError, also if the decision is no longer retained."""
        self._bring(name)
        found = self._store.decisions(name, 1, through=number)
        if not found or found[0].id != number:
            kept = [each.id for each in self._store.decisions(name, HISTORY_LIMIT)]
            range_kept = f"{kept[-1]} to {kept[0]} are" if kept else "none is"
            raise NotFoundError(f"there is no decision {number} of {name}; {range_kept} kept")
        return found[0].listed()

    def _bring(self, name: str) -> None:
        """Store the runner's decisions that the store does not have yet."""
        up = self._runs.up(name)
        if up is not None:
            with suppress(Exception):  # the stored history stays valid; the watchdog takes care of the runner
                up.history.pull_all()

    def results(self, name: str, cursor: ReadResults) -> list[Result]:
        """Return results of the present or the last run. Raises: UnavailableError; ResultsGoneError."""
        watchdog = self._runs.last(name)
        if watchdog is None:
            return Window(None, given=0).read(cursor)
        if isinstance(watchdog.condition, Up | Stopping):
            return watchdog.ask(cursor)
        return watchdog.remembered.window(watchdog.desired.spec.origin.run).read(cursor)

    def rates(self, last_s: float, most: int) -> list[bodies.Rates]:
        """Return the rates of every registered app; empty if its runner does not answer within a second."""
        return gather(lambda name: bodies.Rates.of(name, self._known(name, last_s, most)), list(self._runs.apps))

    def _known(self, name: str, last_s: float, most: int) -> list[Sample]:
        with suppress(UnavailableError):
            return self.history(name, last_s, most, EACH_OF_ALL_S)
        return []

    def history(self, name: str, last_s: float, most: int | None = None, timeout_s: float = ONE_APP_S) -> list[Sample]:
        """Return samples of the present run, or the last quarter of an hour of an ended one. Raises: as ``results``."""
        asked, watchdog = ReadHistory(last_s, most), self._runs.last(name)
        if watchdog is None:
            return []
        if isinstance(watchdog.condition, Up | Stopping):
            return watchdog.ask(asked, timeout_s)
        return asked.thin(watchdog.remembered.history)


def _after_end(resting: Status, last: Status) -> Status:
    """Return the status of a run that has ended: the totals of its ``last`` status, without rates and workers."""
    return resting.but(
        stages=last.stages,
        items=last.items,
        drain=last.drain,
        updated_at=last.updated_at,
        changes=bodies.Changes(switches=last.changes.switches, last_decision=resting.changes.last_decision),
        origin=last.origin,
        demand=Demand(slo_met_share=last.demand.slo_met_share),
        health=RunnerHealth(failure=last.health.failure, held_up=resting.health.held_up),
    )


def _live(watchdog: Watchdog, timeout_s: float) -> Status | None:
    """Return the runner's answer, or its last one if it does not answer."""
    try:
        status = watchdog.ask(ReadStatus(), timeout_s)
        wanted = watchdog.desired
        return status if wanted.in_step else status.but(requested=bodies.Requested.of(wanted.spec))
    except UnavailableError as error:
        last = watchdog.remembered.status
        return last and last.but(health=last.health.failed(str(error)))
