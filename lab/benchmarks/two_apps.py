"""Compare who gets the workers if the loads of two apps take turns: with half each, with no budget, with an arbiter.

    python -m lab.benchmarks.two_apps [--turns 6] [--turn-s 30] [--json]

The three ways follow one another within a run: each app has half of the workers, each takes what it likes, or the
daemon gives them. Looked at four times a second as ``GET /status`` tells; the first turn of each is left out: processes
of workers are started in it, and kept.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from apps import registry
from compositions.enumeration import generate
from lab.benchmarks.harness import Goal, Table, options, report
from profiler.budget import Budget
from profiler.slo import SloStatus, parse_slo, together
from service.daemon.daemon import Daemon
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.ray_host import RayHost
from service.schemas.slo import MachineBudgetRequest
from service.schemas.spec import InputSpec, RunSpec
from service.schemas.status import Status

WORKERS = 8
"""What memory leaves for both apps."""
HALF = Budget(workers=WORKERS // 2)
HIGH_PER_S, LOW_PER_S = 90.0, 8.0
APPS_DIR = Path(__file__).parent / "turns" / "apps"
NAMES = ("first", "second")
LOOK_S, UP_S = 0.25, 120.0


@dataclass
class Seen:
    """Of one app, look by look."""

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
    """With both apps, which may choose as in the simulation."""
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


def measure(turns: int, turn_s: float) -> list[Table]:
    goal = Goal("the one that is worse off, of 0.95", "arbiter", "wanted", 1.0, False)
    met = Table("Time in which the objective is met, of the app that is worse off", "share", [goal])
    most = Table("Workers of both, at the most", "workers")
    mean = Table("Workers of both, on average", "workers")
    changes = Table("Changes of composition, of both", "changes")
    ways = {"halves": (HALF, None), "as they like": (None, None), "arbiter": (None, WORKERS)}
    with daemon() as of:
        found = {name: run(of, *way, turns, turn_s) for name, way in ways.items()}
    met.rounds.append({name: min(each.met_share for each in both.values()) for name, both in found.items()})
    met.rounds[-1]["wanted"] = 0.95
    counted = {name: _together(*both.values()) for name, both in found.items()}
    most.rounds.append({name: float(max(counts)) for name, counts in counted.items()})
    mean.rounds.append({name: sum(counts) / len(counts) for name, counts in counted.items()})
    changes.rounds.append({name: float(sum(each.changes for each in both.values())) for name, both in found.items()})
    return [met, most, mean, changes]


def _together(one: Seen, other: Seen) -> list[int]:
    """Workers at each look."""
    return [sum(pair) for pair in zip(one.workers, other.workers, strict=True)]


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--turn-s", type=float, default=30.0)
    args = parser.parse_args()
    about = {"turn_s": f"{args.turn_s:g}", "workers": str(WORKERS), "rates_per_s": f"{HIGH_PER_S:g}, {LOW_PER_S:g}"}
    report(measure(args.turns, args.turn_s), args.json, about)


if __name__ == "__main__":
    main()
