"""List the plays: pairs of an app and a load, divided into a training part and a test part.

Rules are developed and tuned on the training part only. The test part is played for a release and recorded with the
commit. The fresh part is a random draw of other pairs for comparisons after a look at the test part. It is played once
for a version of a rule; then ``DRAW`` gets another number.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Literal
from zlib import crc32

from compositions.errors import RecomposeError
from lab.gym.apps import APPS, AppModel, mean_item_s, read_app, work_of
from lab.gym.loads import LOADS, LoadModel, read_trace
from lab.gym.model import Play

SPLIT = 1
HOUR_S = 3600.0
DRAW, DRAWN = 4, 16
"""Number of the draw of the fresh part, which is also the seed of its arrivals, and its number of pairs."""
Part = Literal["training", "test", "fresh"]


@dataclass(frozen=True, slots=True)
class Pair:
    """An app under a load, by names or files; every process creates the same items of it."""

    app: str
    load: str
    busy: float
    """Mean number of workers that the work keeps busy; it determines the mean rate."""
    group: str
    seed: int = 0
    duration_s: float = HOUR_S
    speed: float = 0.0
    """Speed-up of a load from a file; 0: the load is scaled to the rate of the pair."""
    factor: float = 1.0
    """Factor that multiplies the app's costs for such a load."""

    @property
    def name(self) -> str:
        return f"{Path(self.app).stem}/{Path(self.load).stem}" + (f"/{self.seed}" if self.seed else "")

    @property
    def part(self) -> Part:
        """Return the part, which follows from the names."""
        if self.group == "fresh":
            return "fresh"
        return "test" if crc32(f"{SPLIT} {self.app} {self.load} {self.seed}".encode()) % 5 < 2 else "training"

    def play(self) -> Play:
        """Create the items. Raises: RecomposeError for an unknown or unreadable app or load."""
        app, load = app_of(self.app), load_of(self.load, self.speed)
        rate_per_s = self.busy / mean_item_s(app)
        work = work_of(app, load, self.duration_s, rate_per_s, self.seed)
        if self.factor != 1:
            work = replace(work, cpu_s=self.factor * work.cpu_s, wait_s=self.factor * work.wait_s)
        if not len(work):
            raise RecomposeError(f"load {self.load!r} has no items within {self.duration_s:g} s")
        announced = load.announced(self.duration_s, rate_per_s, self.seed)
        bound_s = self.factor * app.bound_s
        return Play(
            self.name,
            app.stages,
            app.machine,
            work,
            bound_s,
            duration_s=self.duration_s,
            announced=announced,
            opening=app.opening,
        )


def app_of(name: str) -> AppModel:
    """Return the app of that name or file. Raises: RecomposeError if there is none."""
    if name in APPS:
        return APPS[name]
    if Path(name).is_file():
        return read_app(Path(name))
    raise RecomposeError(f"unknown app {name!r}; there are {', '.join(APPS)}, and files of recorded costs")


def load_of(name: str, speed: float = 0.0) -> LoadModel:
    """Return the load of that name or file. Raises: RecomposeError if there is none."""
    if name in LOADS:
        return LOADS[name]
    if Path(name).is_file():
        return read_trace(Path(name), speed)
    raise RecomposeError(f"unknown load {name!r}; there are {', '.join(LOADS)}, and files of arrivals")


def _group(group: str, *pairs: tuple[str, str, float]) -> tuple[Pair, ...]:
    return tuple(Pair(app, load, busy, group) for app, load, busy in pairs)


SUITE: tuple[Pair, ...] = (
    *_group(
        "recorded",
        ("ferret", "wiki", 5.0),
        ("person", "autothrottle_diurnal", 5.0),
        ("lane", "autothrottle_noisy", 4.0),
        ("bzip2", "iot", 3.0),
        ("tokens", "azure", 2.5),
        ("tokens", "mooncake", 5.0),
    ),
    *_group(
        "bursts",
        ("wide", "mmpp", 4.0),
        ("person", "self_similar", 4.0),
        ("wide", "crowds", 3.0),
        ("bzip2", "crowds_announced", 2.0),
        ("lane", "outage", 1.0),
        ("ferret", "bundles", 5.0),
    ),
    *_group(
        "merging",
        ("light12", "waves", 1.5),
        ("accel", "steps", 3.5),
        ("mixed", "waves", 3.5),
        ("state", "autothrottle_diurnal", 4.0),
        ("db", "mmpp", 2.2),
        ("state", "steps", 3.5),
        ("light12", "constant", 1.5),
    ),
    *_group(
        "costs",
        ("heavytail", "constant", 3.0),
        ("bimodal", "waves", 4.0),
        ("regimes", "constant", 5.0),
        ("slowdown", "constant", 3.0),
        ("sixfold", "constant", 1.2),
        ("leak", "waves", 2.5),
    ),
    *_group(
        "machines",
        ("bandwidth", "steps", 2.0),
        ("stragglers", "waves", 3.0),
        ("neighbours", "autothrottle_noisy", 3.0),
        ("deaths", "waves", 3.5),
    ),
    *_group("queued", ("ray65540", "queued", 60.0)),
    *_group("calm", ("wide", "constant", 4.0), ("wide", "paced", 4.0)),
)
GROUPS = tuple(dict.fromkeys(pair.group for pair in SUITE))
QUICK = ("wide/crowds", "accel/steps")
_TRIED = tuple(product(("accel", "mixed", "state"), ("crowds", "steps", "waves", "self_similar")))
"""Pairs outside the suite that were used for the development of expected-cost."""


def fresh(draw: int) -> tuple[Pair, ...]:
    """Draw pairs of an app and a load of the suite that do not occur in it."""
    busy = {pair.app: pair.busy for pair in SUITE if pair.group != "queued"}
    known = {*_TRIED, *((pair.app, pair.load) for pair in SUITE)}
    others = [each for each in product(busy, LOADS) if each not in known and each[1] != "queued"]
    picked = random.Random(draw).sample(others, DRAWN)
    return tuple(Pair(app, load, busy[app], "fresh", draw) for app, load in picked)


def chosen(part: Part | None, names: Sequence[str], duration_s: float, seeds: int) -> tuple[Pair, ...]:
    """Return the pairs of a part that have one of these names or groups; without names, all.

    Raises: RecomposeError for an unknown name.
    """
    for name in names:
        if name not in GROUPS and name not in {pair.name for pair in SUITE}:
            known = ", ".join((*GROUPS, *(pair.name for pair in SUITE)))
            raise RecomposeError(f"unknown load {name!r}; there are {known}")
    if part == "fresh":
        return tuple(replace(pair, duration_s=duration_s) for pair in fresh(DRAW))
    drawn = [replace(pair, seed=seed, duration_s=duration_s) for pair in SUITE for seed in range(seeds)]
    wanted = [pair for pair in drawn if not names or pair.group in names or pair.name.rsplit("/0", 1)[0] in names]
    return tuple(pair for pair in wanted if part is None or pair.part == part)


def of_users(
    traces: Sequence[Path], apps: Sequence[Path], *, speed: float, busy: float, factor: float, duration_s: float
) -> tuple[Pair, ...]:
    """Return a user's loads with a user's apps; without apps, with ``wide``; without loads, with ``waves``."""
    loads = [str(path) for path in traces] or ["waves"]
    return tuple(
        Pair(app, load, busy, "own", 0, duration_s, speed if traces else 0.0, factor)
        for app in ([str(path) for path in apps] or ["wide"])
        for load in loads
    )
