"""The daemon shares a machine's budget out: kept over restarts, told to whoever comes back, whoever is away or slow."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import MagicMock

import pytest

from apps import registry
from compositions.errors import RecomposeError
from control.arbitration.machine import AWAY_S
from control.decisions import Mode
from service.daemon.daemon import Daemon
from service.daemon.objectives import EVERY_S, Machine
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.runner_slot import LocalHost
from service.runner.rpc.port import ANSWER_S
from service.runner.rpc.requests import AskBid, Request, SetGrant
from service.schemas.refusals import NotStoredError
from service.schemas.slo import BudgetBody, MachineBudgetRequest, MachineShares
from service.schemas.spec import RunSpec
from tests.support.fakes import FakeRunner, PromptTicker

A = TypeVar("A")
NAMES = ("ferret", "synthetic")


class Silenced(FakeRunner):
    """Answers what ``deaf`` does not name."""

    deaf: tuple[type[Any], ...] = ()
    waited_s = 0.0

    def ask(self, request: Request[A], *, timeout_s: float = ANSWER_S) -> A:
        if isinstance(request, self.deaf):
            self.waited_s += timeout_s
            raise TimeoutError("it hangs")
        return super().ask(request, timeout_s=timeout_s)


@dataclass
class Rig:
    """A daemon of two apps with a clock of its own."""

    store: DaemonStore
    runners: dict[str, Silenced] = field(default_factory=dict)
    now_s: float = 0.0

    def __post_init__(self) -> None:
        apps = {name: registry.find(name) for name in NAMES}
        self.daemon = Daemon(apps, LocalHost(self._make), self.store, make_ticker=PromptTicker)
        self.machine = self.daemon.machine
        self.machine._clock = lambda: self.now_s

    def _make(self, spec: RunSpec) -> Silenced:
        self.runners[spec.app] = Silenced(spec)
        return self.runners[spec.app]

    def run(self, **needs: int) -> None:
        for app, units in needs.items():
            self.daemon.apps.start(RunSpec(app=app))
            self.runners[app].share.needs = units

    def turn(self) -> dict[str, int | None]:
        """Workers that each runner was given, by what it knows."""
        assert self.machine.turn() == EVERY_S
        self.now_s += EVERY_S
        return {app: (grant := runner.share.grant) and grant.budget.workers for app, runner in self.runners.items()}


@pytest.fixture
def rig(disk: DaemonStore) -> Rig:
    return Rig(disk)


def eight(**apps: dict[str, float]) -> MachineBudgetRequest:
    return MachineBudgetRequest.model_validate({"workers": 8, "apps": apps})


@pytest.fixture
def shared(rig: Rig) -> Rig:
    """Eight workers are shared by apps of which one needs six and the other two, and has so many."""
    rig.machine.set(eight())
    rig.run(ferret=6, synthetic=2)
    rig.turn()
    return rig


def test_each_gets_its_share_and_the_status_says_so_until_it_is_lifted(rig: Rig) -> None:
    rig.run(ferret=6, synthetic=4)
    assert rig.turn() == {"ferret": None, "synthetic": None}
    rig.machine.set(eight(ferret={"priority": 3}))
    assert rig.turn() == {"ferret": 6, "synthetic": 2}
    status = rig.daemon.observation.status("synthetic")
    grant = status.resources.grant
    assert (grant.workers, grant.reached, grant.reached_with_more) == (2, 0.5, 0.75)
    assert grant.more == BudgetBody(workers=1, cores=None)
    assert grant.composition_with_more == "3 wide"
    assert rig.machine.shares().shares["synthetic"] == grant
    rig.machine.set(None)
    assert rig.turn() == {"ferret": None, "synthetic": None}
    assert rig.machine.shares().shares == {}


def test_it_is_there_after_a_restart_of_the_daemon_which_tells_it_again(tmp_path: Path) -> None:
    first = Rig(DaemonStore(tmp_path))
    set_ = first.machine.set(eight(ferret={"priority": 2, "floor": 1}))
    first.store.close()
    second = Rig(DaemonStore(tmp_path))
    assert second.machine.shares() == set_
    second.run(ferret=6)
    assert second.turn() == {"ferret": 8}
    second.machine.set(None)
    second.store.close()
    third = Rig(DaemonStore(tmp_path))
    assert third.machine.shares() == MachineShares(workers=None, cores=None, apps={}, accepted_at=None, shares={})
    third.store.close()


def test_a_runner_that_an_earlier_daemon_left_with_a_budget_is_freed_of_it(shared: Rig) -> None:
    after = Machine(shared.daemon._runs, DaemonStore(None))
    after.turn()
    assert [shared.runners[app].share.grant for app in NAMES] == [None, None]
    shared.runners["ferret"].deaf = (SetGrant,)
    after.turn()
    assert shared.runners["ferret"].waited_s == 0, "it is told once"


def test_a_runner_that_hangs_keeps_what_it_has_for_a_while_and_holds_up_nobody(shared: Rig) -> None:
    shared.runners["ferret"].deaf = (AskBid,)
    shared.runners["synthetic"].share.needs = 8
    assert shared.turn() == {"ferret": 6, "synthetic": 2}
    assert 0 < shared.runners["ferret"].waited_s < ANSWER_S
    shared.now_s += AWAY_S
    assert shared.turn() == {"ferret": 6, "synthetic": 8}


def test_a_runner_that_switches_when_the_budget_is_changed_keeps_what_it_has(shared: Rig) -> None:
    shared.machine.set(eight(synthetic={"priority": 2}))
    shared.runners["ferret"].share.switching = True
    assert shared.turn()["ferret"] == 6
    shared.runners["ferret"].share.switching = False
    assert shared.turn() == {"ferret": 6, "synthetic": 2}


def test_a_runner_that_could_not_hear_is_told_again(rig: Rig) -> None:
    rig.machine.set(eight())
    rig.run(ferret=6, synthetic=2)
    rig.runners["ferret"].deaf = (SetGrant,)
    assert rig.turn() == {"ferret": None, "synthetic": 2}
    rig.runners["ferret"].deaf = ()
    assert rig.turn() == {"ferret": 6, "synthetic": 2}
    rig.runners["ferret"].deaf = rig.runners["synthetic"].deaf = (SetGrant,)
    rig.machine.set(None)
    assert rig.turn() == {"ferret": 6, "synthetic": 2}
    rig.runners["ferret"].deaf = ()
    assert rig.turn() == {"ferret": None, "synthetic": 2}


def test_a_runner_that_is_started_again_gets_its_share_again(shared: Rig) -> None:
    shared.runners["ferret"].kill()
    watchdog = shared.daemon._runs.present("ferret")
    watchdog.step()  # it sees that the runner is dead
    assert shared.turn()["synthetic"] == 2, "what it had is not given away"
    watchdog.step()  # and brings up another
    shared.runners["ferret"].share.needs = 6
    assert shared.turn() == {"ferret": 6, "synthetic": 2}


def test_an_app_that_ends_gives_its_share_back(rig: Rig) -> None:
    rig.machine.set(eight())
    rig.run(ferret=6, synthetic=8)
    assert rig.turn() == {"ferret": 6, "synthetic": 2}
    rig.daemon.apps.stop("ferret")
    assert rig.turn()["synthetic"] == 8


def test_what_is_pinned_is_limited_by_nobody_and_not_there_for_the_others(shared: Rig) -> None:
    shared.daemon.apps.set_mode("synthetic", Mode.PINNED, None)
    assert shared.turn() == {"ferret": 8 - shared.runners["synthetic"].active.workers, "synthetic": None}


def test_a_budget_that_cannot_be_stored_is_not_in_force(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig.store.facts, "put", MagicMock(side_effect=NotStoredError("no room")))
    with pytest.raises(RecomposeError, match="no room"):
        rig.machine.set(eight())
    rig.run(ferret=6)
    assert rig.turn() == {"ferret": None}
