"""The machine that the apps share: its budget, and the loop that asks them and gives each its share."""

import time
from collections.abc import Callable, Mapping, Sequence
from threading import RLock

import structlog

from compositions.errors import Fault, RecomposeError
from control.arbitration.arbiter import Bid
from control.arbitration.machine import Arbitration
from control.decisions import Grant
from service.daemon.runs import EACH_OF_ALL_S, Runs, gather
from service.daemon.store.store import DaemonStore
from service.daemon.store.tables import body_to_json
from service.daemon.supervision.watchdog import Watchdog
from service.runner.rpc.requests import AskBid, SetGrant
from service.schemas.base import utc_now
from service.schemas.refusals import BadValueError, no_app
from service.schemas.slo import AcceptedBudget, MachineBudgetRequest, MachineShares

EVERY_S = 0.5
"""Between two turns: a load that turns is answered within a second."""
NAME = "budget"
log = structlog.get_logger()


class Machine:
    """Thread-safe. A turn asks all apps at once, so that one that hangs does not hold up the others."""

    def __init__(self, runs: Runs, store: DaemonStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._runs, self._store, self._clock = runs, store, clock
        stored = store.facts.get(NAME)
        self._accepted = None if stored is None else AcceptedBudget.model_validate_json(stored)
        self._arbitration = _arbitration(self._accepted)
        self._grants: Mapping[str, Grant] = {}
        self._free: set[Watchdog] = set()
        """Told that nobody counts, since that is so."""
        self._lock = RLock()

    # --- the budget ---

    def shares(self) -> MachineShares:
        return MachineShares.of(self._accepted, self._grants)

    def set(self, asked: MachineBudgetRequest | None) -> MachineShares:
        """Stored first; the apps hear of it within a turn. None lifts it. Raises: BadValueError, NotStoredError."""
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

    # --- the loop ---

    def turn(self) -> float:
        """Asks and gives, once. Returns the seconds until the next turn."""
        try:
            self._share_out(self._arbitration)
        except Exception as error:  # the apps keep what they have; the next turn may do better
            log.exception(
                "machine budget not shared out; the apps keep their shares until the next turn", error=str(error)
            )
        return EVERY_S

    def _share_out(self, arbitration: Arbitration | None) -> None:
        present = self._runs.all_present()
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
                continue  # it cannot hear, or cannot tell what it needs: it keeps what it has
            if bid.grant != grant:
                _tell(watchdog, grant)

    def _lift(self, present: Sequence[Watchdog]) -> None:
        """Each runner once: one that was left by an earlier daemon may know of a budget that is none any more."""
        self._free &= set(present)
        self._free |= {each for each in present if each not in self._free and _tell(each, None)}


def _arbitration(accepted: AcceptedBudget | None) -> Arbitration | None:
    return None if accepted is None else Arbitration(accepted.asked.budget())


def _bid(watchdog: Watchdog, ask: AskBid) -> Bid | None:
    """None of one that is away, starting, or slower than ``EACH_OF_ALL_S``: it keeps what it has."""
    try:
        return watchdog.ask(ask, EACH_OF_ALL_S)
    except RecomposeError:
        return None


def _tell(watchdog: Watchdog, grant: Grant | None) -> bool:
    """Return whether it heard. What it has not heard is told at the next turn."""
    try:
        watchdog.ask(SetGrant(grant), EACH_OF_ALL_S)
    except RecomposeError:
        return False
    return True
