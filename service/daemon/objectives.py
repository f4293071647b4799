"""Objectives, planned loads and alerts of the apps, and their common budget: stored, and applied at once."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import RLock

import structlog

from compositions.errors import Fault, RecomposeError
from control.arbitration.arbiter import Bid
from control.arbitration.machine import Arbitration
from control.decisions import Grant
from profiler.slo import INPUT_RATE, Slo
from service.daemon.alerts import Alerts
from service.daemon.apps import check_objectives
from service.daemon.observation import Observation
from service.daemon.runs import EACH_OF_ALL_S, PRESENT, Runs, gather
from service.daemon.store.store import DaemonStore, body_to_json, undone_by_failure
from service.daemon.supervision.watchdog import Watchdog
from service.runner.rpc.requests import AskBid, SetGrant, SetPlannedLoads, SetSlo
from service.schemas.base import utc_now
from service.schemas.refusals import BadValueError, NotFoundError, no_app
from service.schemas.requests import AnnounceRequest
from service.schemas.slo import AcceptedBudget, AcceptedSlo, MachineBudgetRequest, MachineShares, StoredSlo
from service.schemas.spec import PlannedLoad
from service.schemas.status import Status

MOST_PLANNED = 1000
"""Maximum number of planned loads stored for an app; of more, those that begin first are kept."""


class Objectives:
    """Methods with a name raise NotFoundError for an app that is not registered."""

    def __init__(self, runs: Runs, store: DaemonStore, observation: Observation) -> None:
        self._runs, self._store, self._observation = runs, store, observation
        self.alerts = Alerts(runs.apps, observation.status, store.facts)

    def set(self, name: str, slo: Slo) -> StoredSlo:
        """Set the objective, or change nothing. Raises: BadValueError (unfit), UnavailableError, NotStoredError."""
        with self._runs.changing(name):
            present = self._runs.present(name)
            if present is not None:
                check_objectives(present.desired.spec.method.strategy, slo)
            before, accepted = self._store.slo(name), self._store.put_slo(name, slo)
            with undone_by_failure(lambda: self._store.put_back_slo(name, before)):
                self._tell(name, slo)
        return self._shown(accepted)

    def of(self, name: str) -> StoredSlo:
        """Return the objective. Raises: NotFoundError also if there is none."""
        return self._shown(self._accepted(name))

    def all(self) -> list[StoredSlo]:
        return [self._shown(each) for each in self._store.slos() if each.app in self._runs.apps]

    def remove(self, name: str) -> None:
        """Remove the objective. Raises: NotFoundError also if there is none; else as ``set``."""
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
        follows = any(each.target == INPUT_RATE for each in accepted.slo.each)
        runs = follows and self._runs.present(accepted.app) is not None
        return StoredSlo.stored(accepted, self._observation.status(accepted.app).input_rate_per_s if runs else None)

    def announce(self, name: str, asked: AnnounceRequest) -> Status:
        """Add a planned load. Raises: ConflictError, BadValueError, NotStoredError, UnavailableError."""
        now, until_s = time.time(), asked.until.timestamp()
        if until_s <= now:
            raise BadValueError(f"until {asked.until.isoformat()} is in the past; only a coming load can be announced")
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
    """Return the planned loads with another one, which replaces one of the same period; ended ones are dropped."""
    span = (another.from_epoch_s, another.until_epoch_s)
    others = (each for each in known if (each.from_epoch_s, each.until_epoch_s) != span)
    lasting = (each for each in (*others, another) if each.until_epoch_s > now_epoch_s)
    return tuple(sorted(lasting, key=lambda each: each.from_epoch_s)[:MOST_PLANNED])


EVERY_S = 0.5
"""Interval between two turns, in seconds, so that a changed load is answered within a second."""
NAME = "budget"
log = structlog.get_logger()


class Machine:
    """The machine's budget. Thread-safe. A turn asks all apps at once, so that a hung one does not delay others."""

    def __init__(self, runs: Runs, store: DaemonStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._runs, self._store, self._clock = runs, store, clock
        stored = store.facts.get(NAME)
        self._accepted = None if stored is None else AcceptedBudget.model_validate_json(stored)
        self._arbitration = _arbitration(self._accepted)
        self._grants: Mapping[str, Grant] = {}
        self._free: set[Watchdog] = set()
        """Apps that were told that there is no budget, since it was removed."""
        self._lock = RLock()

    def shares(self) -> MachineShares:
        return MachineShares.of(self._accepted, self._grants)

    def set(self, asked: MachineBudgetRequest | None) -> MachineShares:
        """Store the budget (None: remove it); apps receive it within a turn. Raises: BadValueError, NotStoredError."""
        unknown = [] if asked is None else [name for name in asked.apps if name not in self._runs.apps]
        if unknown:
            message = no_app(unknown[0], self._runs.apps)
            raise BadValueError(message, [Fault(f"apps.{unknown[0]}", message)])
        accepted = None if asked is None else AcceptedBudget(asked=asked, accepted_at=utc_now())
        with self._lock:
            self._store.facts.put(NAME, None if accepted is None else body_to_json(accepted))
            self._accepted, self._arbitration = accepted, _arbitration(accepted)
            self._grants = {}
            self._free.clear()
        return self.shares()

    def turn(self) -> float:
        """Ask the apps and send the shares, once. Return the seconds until the next turn."""
        try:
            self._share_out(self._arbitration)
        except Exception as error:  # the apps keep their shares; the next turn may succeed
            what = "machine budget not divided; the apps keep their shares until the next turn"
            log.exception(what, error=str(error))
        return EVERY_S

    def _share_out(self, arbitration: Arbitration | None) -> None:
        present = [each for each in self._runs.all() if isinstance(each.condition, PRESENT)]
        if arbitration is None:
            self._lift(present)
            return
        ask = AskBid(arbitration.budget.limits())
        bids = dict(zip(present, gather(lambda each: _bid(each, ask), present), strict=True))
        with self._lock:
            if arbitration is not self._arbitration:
                return  # another budget was set meanwhile
            grants = arbitration.grants(self._clock(), {each.app: bid for each, bid in bids.items()})
            self._grants = grants
        for watchdog, bid in bids.items():
            grant = grants.get(watchdog.app)
            if bid is None or (grant is None and bid.takes_part):
                continue  # the app does not answer, so it keeps its share
            if bid.grant != grant:
                _tell(watchdog, grant)

    def _lift(self, present: Sequence[Watchdog]) -> None:
        """Tell each runner once that there is no budget; one of an earlier daemon may know an old budget."""
        self._free &= set(present)
        self._free |= {each for each in present if each not in self._free and _tell(each, None)}


def _arbitration(accepted: AcceptedBudget | None) -> Arbitration | None:
    return None if accepted is None else Arbitration(accepted.asked.budget())


def _bid(watchdog: Watchdog, ask: AskBid) -> Bid | None:
    """Return an app's bid; None if it is away, starting, or slower than ``EACH_OF_ALL_S``: it keeps its share."""
    with suppress(RecomposeError):
        return watchdog.ask(ask, EACH_OF_ALL_S)
    return None


def _tell(watchdog: Watchdog, grant: Grant | None) -> bool:
    """Send a share; return whether the app received it. If not, the next turn sends it again."""
    with suppress(RecomposeError):
        watchdog.ask(SetGrant(grant), EACH_OF_ALL_S)
        return True
    return False
