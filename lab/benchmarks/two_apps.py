"""Compare who gets the workers if the loads of two apps alternate: with half each, without a budget, with an arbiter.

    python -m lab.benchmarks.two_apps [--turns 6] [--turn-s 30] [--json]

The three ways follow one another within a run: each app has half of the workers, each takes what it likes, or the
daemon divides them. The status is read four times a second. The first turn of each app is left out, because worker
processes are started in it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from apps import registry
from compositions.enumeration import generate
from lab.benchmarks.harness import Table, at_least, main
from profiler.budget import Budget
from profiler.slo import SloStatus, parse_slo, together
from service.daemon.daemon import Daemon
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.ray_host import RayHost
from service.schemas.slo import MachineBudgetRequest
from service.schemas.spec import InputSpec, RunSpec
from service.schemas.status import Status

WORKERS = 8
"""Workers of both apps; memory allows no more."""
HALF = Budget(workers=WORKERS // 2)
HIGH_PER_S, LOW_PER_S = 90.0, 8.0
APPS_DIR = Path(__file__).parent / "turns" / "apps"
NAMES = ("first", "second")
LOOK_S, UP_S = 0.25, 120.0


@dataclass
class Seen:
    """Readings of one app."""

    met: list[bool] = field(default_factory=list)
    workers: list[int] = field(default_factory=list)
    changes: int = 0

    def note(self, status: Status) -> None:
        if status.requested.slo_status in (SloStatus.MET, SloStatus.VIOLATED, SloStatus.INFEASIBLE):
            self.met.append(status.requested.slo_status is SloStatus.MET)
        self.workers.append(status.composition.workers if status.composition else 0)
        self.changes = status.changes.switches

    @property
    def met_share(self) -> float:
        return sum(self.met) / max(1, len(self.met))


@contextmanager
def daemon() -> Iterator[Daemon]:
    """Yield a daemon with both apps, with the same compositions as in the simulation."""
    store, host = DaemonStore(None), RayHost()
    apps = {name: registry.find(name, [APPS_DIR]) for name in NAMES}
    for name, app in apps.items():
        choices = generate(app.stages, max_workers=10, replicas=[1, 2, 3, 4, 5, 6, 7, 8])
        store.put_overlay(name, {each.name: each for each in choices})
    made = Daemon(apps, host, store, RunSpec(app="", apps_dirs=(str(APPS_DIR),)))
    made.restore()
    try:
        yield made
    finally:
        made.close(drain=False)
        host.close()
        store.close()


def run(of: Daemon, budget: Budget | None, shared: int | None, turns: int, turn_s: float) -> dict[str, Seen]:
    of.machine.set(None if shared is None else MachineBudgetRequest(workers=shared))
    for name in NAMES:
        of.objectives.set(name, together([parse_slo("share95=400ms")], budget))
        of.apps.start(RunSpec(app=name, input=InputSpec(rate_per_s=LOW_PER_S)))
    _wait_until_up(of)
    seen = {name: Seen() for name in NAMES}
    for turn in range(turns):
        busy = NAMES[turn % 2]
        for name in NAMES:
            of.apps.set_input(name, InputSpec(rate_per_s=HIGH_PER_S if name == busy else LOW_PER_S))
        _look(of, seen if turn >= len(NAMES) else {}, turn_s)
    for name in NAMES:
        of.apps.stop(name)
    return seen


def _look(of: Daemon, seen: dict[str, Seen], for_s: float) -> None:
    until_s = time.monotonic() + for_s
    while (now_s := time.monotonic()) < until_s:
        for name, one in seen.items():
            one.note(of.observation.status(name))
        time.sleep(max(0.0, min(LOOK_S - (time.monotonic() - now_s), until_s - time.monotonic())))


def _wait_until_up(of: Daemon) -> None:
    until_s = time.monotonic() + UP_S
    while not all(of.observation.status(name).items.delivered for name in NAMES):
        if time.monotonic() > until_s:
            raise TimeoutError(f"nothing was delivered within {UP_S:g} s")
        time.sleep(LOOK_S)


def measure(turns: int = 6, turn_s: Annotated[float, "seconds of a turn"] = 30.0) -> Iterator[Table]:
    ways = {"halves": (HALF, None), "as they like": (None, None), "arbiter": (None, WORKERS)}
    with daemon() as of:
        found = {name: tuple(run(of, *way, turns, turn_s).values()) for name, way in ways.items()}
    rates = f"loads {HIGH_PER_S:g} and {LOW_PER_S:g} items/s, {WORKERS} workers"
    goal = at_least("the app that is worse off", "arbiter", 0.95)
    counted = {name: _together(*both) for name, both in found.items()}
    met = {name: min(each.met_share for each in both) for name, both in found.items()}
    yield Table(f"time in which the objective is met, of the app that is worse off; {rates}", "share", [goal], [met])
    yield Table("workers of both, maximum", "workers", (), [{name: max(counts) for name, counts in counted.items()}])
    mean = {name: sum(counts) / len(counts) for name, counts in counted.items()}
    yield Table("workers of both, mean", "workers", (), [mean])
    changes = {name: sum(each.changes for each in both) for name, both in found.items()}
    yield Table("changes of composition, of both", "changes", (), [changes])


def _together(one: Seen, other: Seen) -> list[int]:
    """Return the workers of both apps at each reading."""
    return [sum(pair) for pair in zip(one.workers, other.workers, strict=True)]


if __name__ == "__main__":
    main(measure)
