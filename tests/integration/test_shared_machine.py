"""Two real apps on one machine with a budget: each keeps to its share, and shares follow the loads."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from apps import registry
from compositions.enumeration import generate
from control.decisions import Mode
from profiler.slo import parse_slo
from service.daemon.daemon import Daemon
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.runner_slot import LocalHost
from service.runner.rpc.requests import SetInput
from service.runner.runner import Runner
from service.schemas.decisions import Decision
from service.schemas.slo import MachineBudgetRequest
from service.schemas.spec import InputSpec, RunSpec
from tests.support.waiting import wait_until

APPS_DIR = Path(__file__).parents[1] / "support" / "turns"
NAMES = ("first", "second")
WORKERS, HIGH_PER_S, LOW_PER_S = 6, 70.0, 5.0


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    store, apps = DaemonStore(None), {name: registry.find(name, [APPS_DIR]) for name in NAMES}
    for name, app in apps.items():
        store.put_overlay(name, {c.name: c for c in generate(app.stages, max_workers=6, replicas=[1, 2, 3, 4])})
    made = Daemon(apps, LocalHost(Runner), store, RunSpec(app="", pool="local", apps_dirs=(str(APPS_DIR),)))
    made.restore()
    yield made
    made.close(drain=False)
    store.close()


def workers(daemon: Daemon, name: str) -> int:
    composition = daemon.observation.status(name).composition
    return 0 if composition is None else composition.workers


def shares(daemon: Daemon) -> dict[str, int | None]:
    return {app: share.workers for app, share in daemon.machine.shares().shares.items()}


def told_of_the_grant(daemon: Daemon, name: str) -> bool:
    """A share that was carried out is told once that is done, or with the decision that the load asked for."""
    made = [each for each in daemon.observation.decisions(name, 100) if isinstance(each, Decision)]
    return any("the arbiter gives" in each.reason for each in made)


def test_each_keeps_to_its_share_which_follows_the_loads_and_is_given_back(daemon: Daemon) -> None:
    def more_for(name: str) -> None:
        """Also workers, once both keep to the budget."""
        wait_until(lambda: (shares(daemon).get(name) or 0) > 3 <= workers(daemon, name))
        wait_until(lambda: sum(workers(daemon, each) for each in NAMES) <= WORKERS)

    daemon.machine.set(MachineBudgetRequest(workers=WORKERS))
    for name, rate_per_s in zip(NAMES, (HIGH_PER_S, LOW_PER_S), strict=True):
        daemon.objectives.set(name, parse_slo("throughput=input_rate"))
        daemon.apps.start(RunSpec(app=name, input=InputSpec(rate_per_s=rate_per_s)))
    more_for("first")
    for name, rate_per_s in zip(NAMES, (LOW_PER_S, HIGH_PER_S), strict=True):
        daemon.apps.set(name, SetInput(InputSpec(rate_per_s=rate_per_s)))
    more_for("second")
    grant = daemon.observation.status("second").resources.grant
    assert grant is not None
    assert grant.total.workers == WORKERS
    wait_until(lambda: any(told_of_the_grant(daemon, name) for name in NAMES))
    daemon.apps.set_mode("first", Mode.PINNED, None)
    wait_until(lambda: daemon.observation.status("first").resources.grant is None)  # nobody limits what is pinned
    daemon.apps.stop("first")
    wait_until(lambda: shares(daemon) == {"second": WORKERS})
