"""Constant loads that are rough: does strategy ``model`` find the right composition, and does it stay there?

Independent users (Poisson arrivals), service times that scatter (coefficient of variation up to 1.5), stages that wait;
else random apps as in ``benchmarks/right_choice.py``. The truth of a case is found by running each composition by
itself, cheapest first, for long enough that chance evens out.

    python -m benchmarks.rough_choice [--apps 100] [--first 0] [--after 600]
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from benchmarks import right_choice
from benchmarks.right_choice import SPARE, Case, Truth
from compositions.model import Composition
from service.running.simulated.scenario import Scenario
from service.running.simulated.simulation import simulate
from service.running.simulated.trace import Trace

SETTLES_S = 30.0
GLANCE_ITEMS, TRUTH_ITEMS = 1500.0, 9000.0
"""Items by which a composition is judged by itself: the more where the fewer leave it open. A 95th percentile of the
former is known to about 10 %, of the latter to 3 %."""
CLEAR = 0.4
"""Slack that a first look is believed, either way."""


@dataclass(frozen=True)
class RoughCase(Case):
    """One random app whose users are independent."""

    arrivals: Literal["poisson"] = "poisson"

    def scenario(self, strategy: str, duration_s: float, **more: object) -> Scenario:
        return replace(super().scenario(strategy, duration_s, **more), arrivals=self.arrivals)


@dataclass(frozen=True)
class Attempt:
    """What came of one case."""

    case: int
    feasible: bool
    roomy: bool
    extra_workers: int
    """Against the cheapest that meets the objective."""
    meets: bool
    """By the truth: the last composition meets it when run by itself."""
    changes: int
    settled_s: float
    """After how long it last changed within the first minutes."""
    later: int
    """Changes after ``SETTLES_S``."""


def rough_case(seed: int) -> RoughCase:
    """That of ``right_choice`` with scatter and waiting of its own."""
    draw, plain = random.Random(1_000_003 * (seed + 1)), right_choice.random_case(seed)
    stages = tuple(
        replace(each, cv=draw.choice((0.3, 0.6, 1.0, 1.5)), wait_share=draw.choice((0.0, 0.5, 0.9)))
        for each in plain.stages
    )
    return RoughCase(seed, stages, plain.compositions, plain.slo, plain.rate_per_s, plain.machine)


def truth_of(case: RoughCase) -> Truth:
    """As ``right_choice.truth_of``, on more items."""
    slack: dict[str, float] = {}
    fewest: int | None = None
    for composition in sorted(case.compositions, key=lambda c: (c.workers, len(c.groups))):
        slack[composition.name] = slack_of(case, composition)
        if fewest is None and slack[composition.name] >= 0:
            fewest = composition.workers
        if slack[composition.name] >= SPARE:
            return Truth(slack, fewest, roomy=True)
    return Truth(slack, fewest, roomy=False)


def slack_of(case: RoughCase, composition: Composition) -> float:
    """Of ``composition`` by itself, on as many items as it takes to tell."""
    glance = right_choice.static_slack(case, composition, GLANCE_ITEMS / case.rate_per_s)
    if abs(glance) > CLEAR:
        return glance
    return right_choice.static_slack(case, composition, TRUTH_ITEMS / case.rate_per_s)


def attempt(seed: int, after_s: float) -> Attempt:
    """Runs strategy ``model`` until ``after_s`` past the time in which it is to settle."""
    case = rough_case(seed)
    truth = truth_of(case)
    run = simulate(case.scenario("model", SETTLES_S + after_s))
    final = next(c for c in case.compositions if c.name == run.final.composition)
    slack = truth.slack.get(final.name)
    if slack is None:
        slack = slack_of(case, final)
    at_s = changed_s(run)
    extra, later = final.workers - (truth.fewest or 0), sum(each > SETTLES_S for each in at_s)
    feasible = truth.fewest is not None
    return Attempt(seed, feasible, truth.roomy, extra, slack >= 0, len(at_s), max(at_s, default=0.0), later)


def changed_s(run: Trace) -> list[float]:
    """When the composition changed."""
    pairs = zip(run.moments, run.moments[1:], strict=False)
    return [after.at_s for before, after in pairs if after.composition != before.composition]


def summary(attempts: Sequence[Attempt]) -> dict[str, float]:
    """The figures that are asked for."""
    feasible, roomy = [o for o in attempts if o.feasible], [o for o in attempts if o.roomy]
    return {
        "within one worker [>= 0.95]": fmean(abs(o.extra_workers) <= 1 for o in feasible),
        "met where 10 % to spare [>= 0.99]": fmean(o.meets for o in roomy),
        "changes, mean [<= 2]": fmean(o.changes for o in attempts),
        "settled within 30 s [>= 0.95]": fmean(o.settled_s <= SETTLES_S for o in attempts),
        "changed after that": fmean(o.later > 0 for o in attempts),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--apps", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--after", type=float, default=600.0, help="seconds watched after it is to have settled")
    options = parser.parse_args(arguments)
    began_s, attempts = time.monotonic(), []
    for seed in range(options.first, options.first + options.apps):
        attempts.append(attempt(seed, options.after))
        print(attempts[-1], flush=True)
    print(f"{options.apps} apps, took {time.monotonic() - began_s:.0f} s")
    for name, value in summary(attempts).items():
        print(f"{name:36} {value:6.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
