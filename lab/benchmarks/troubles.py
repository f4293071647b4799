"""Play the rule on cases in which one thing is wrong with a machine or an app: ``python -m lab.benchmarks.troubles``.

Each case has a constant rate, so that only the trouble changes. A row contains the share of items in time outside 15 s
around a change, the cost relative to the cheapest fixed composition with 0.95 in time of each part of the run, the
number of changes of the composition, and the time from each change to the next decision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from lab.benchmarks.harness import Rows, Seed, main
from lab.gym.hindsight import Fixed, shared
from lab.gym.model import Play, Work
from lab.gym.player import STEP_S, Strategy, play_run
from lab.gym.suite import Pair

KNOWN_S = 120.0
"""Time from which on the run counts, in seconds."""
AROUND_S = 15.0
LENGTH_S = 900.0


@dataclass(frozen=True, slots=True)
class Case:
    """An app at a constant rate, and when its costs change."""

    text: str
    app: str
    busy: float
    load: str = "constant"
    changes_s: tuple[float, ...] = ()
    """Times of the changes in a run of 900 s."""

    def play(self, seed: int) -> Play:
        """Create the items."""
        return Pair(self.app, self.load, self.busy, "cases", seed, LENGTH_S).play()


CASES = (
    Case("a stage takes six times as long from 450 s on, 2 items/s", "sixfold", 1.0, changes_s=(450.0,)),
    Case("a stage takes three times as long for two minutes", "slowdown", 3.0, changes_s=(450.0, 570.0)),
    Case("runs of content that costs four times as much", "regimes", 5.0),
    Case("two workers of eight at half speed", "stragglers", 4.0),
    Case("a camera", "wide", 4.0, "paced"),
    Case("four workers fill the memory's bandwidth", "bandwidth", 2.0),
    Case("a database of four connections", "db", 2.2),
)
SHARE, COST, SOON_S = 0.95, 1.15, 5.0


def measure(seed: Seed = 0, strategy: str = "expected-cost") -> Iterator[Rows]:
    for case in CASES:
        play = case.play(seed)
        run = play_run(play, Strategy(strategy))
        due_s, edges_s = play.work.due_s, (KNOWN_S, *case.changes_s, LENGTH_S)
        counts = (due_s >= KNOWN_S) & (due_s < LENGTH_S - play.bound_s)
        for change_s in case.changes_s:
            counts &= abs(due_s - change_s) > AROUND_S
        fixed = sum(cheapest(play, *part) * (part[1] - part[0]) for part in pairwise(edges_s)) / (LENGTH_S - KNOWN_S)
        after_s = [min((c.at_s - at for c in run.changes if c.at_s >= at), default=None) for at in case.changes_s]
        alive = float(run.alive[int(KNOWN_S / STEP_S) :].mean())
        in_time = float((run.latency_s[counts] <= play.bound_s).mean())
        row = {
            "in time": in_time, "workers": alive, "cheapest": fixed, "ratio": alive / fixed,
            "changes": sum(c.at_s >= KNOWN_S for c in run.changes), "decided after s": after_s,
        }  # fmt: skip
        checks = {f"in time ≥ {SHARE:g}": in_time >= SHARE, f"≤ {COST:g} × the cheapest": alive <= COST * fixed}
        if after_s:
            checks[f"decided within {SOON_S:g} s"] = after_s[0] is not None and after_s[0] <= SOON_S
        yield Rows(case.text, [row], checks)


def cheapest(play: Play, from_s: float, until_s: float) -> int:
    """Return the fewest workers of a fixed composition with 0.95 in time after 15 s; the most if none has."""
    work = play.work
    part = (work.due_s >= from_s) & (work.due_s < until_s)
    work = Work(work.due_s[part] - from_s, work.cpu_s[part], work.wait_s[part])
    play = replace(play, work=work, duration_s=until_s - from_s)
    counts = (work.due_s > AROUND_S) & (work.due_s < play.duration_s - play.bound_s)
    for workers in range(1, play.machine.most_workers + 1):
        for groups in dict.fromkeys((play.merged, play.apart)):
            if workers >= len(groups):
                run = play_run(play, partial(Fixed, composition=shared(play, groups, workers)))
                if (run.latency_s[counts] <= play.bound_s).mean() >= SHARE:
                    return workers
    return play.machine.most_workers


if __name__ == "__main__":
    main(measure)
