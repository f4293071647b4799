"""Define the apps: stages with the costs of items, a machine and a bound, by name; and read a user's own.

The bounds are 2.5 to 5 times the 95th percentile of an item's cost over all stages, so that they can be held and must
be worked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np

from compositions.errors import RecomposeError, shown
from compositions.wording import figure
from lab.gym.costs import (
    MICROSECOND_S,
    Change,
    Costs,
    bimodal,
    by_tokens,
    drawn,
    heavy_tail,
    in_order,
    leak,
    recorded,
    regimes,
    slow_for_a_while,
    slow_from_half,
)
from lab.gym.loads import LoadModel
from lab.gym.model import Floats, Machine, StageModel, Work
from lab.gym.tables import Table, read_table

T = TypeVar("T")
FERRET_FACTOR, PERSON_FACTOR, LANE_FACTOR, BZIP2_FACTOR = 40.0, 2.4, 22.0, 80.0
"""Factors of the recorded costs, so that an item takes 0.4 s or a little more: ten items/s need some five workers, and
an hour has 36,000 items."""
SLOW_HOP_S = 0.003
_TYPICAL_ITEMS, _TYPICAL_S = 4000, 3600.0


@dataclass(frozen=True, slots=True)
class AppModel:
    """An app on its machine."""

    name: str
    stages: tuple[StageModel, ...]
    machine: Machine
    bound_s: float
    """An item is in time if it is delivered within this time after it was due."""
    costs: Costs
    opening: tuple[int, ...] = ()
    """Replicas of the stages at the beginning; empty: one of each."""


def work_of(app: AppModel, load: LoadModel, duration_s: float, rate_per_s: float, seed: int) -> Work:
    """Return the items of this app under this load. The same seed gives the same items."""
    due_s = load.times(duration_s, rate_per_s, seed)
    sizes = load.sizes(duration_s, rate_per_s, seed) if load.sizes else None
    return Work(due_s, *app.costs(len(due_s), seed, sizes, due_s))


def typical_costs(app: AppModel) -> tuple[Floats, Floats]:
    """Return the costs of items that come evenly over one hour: seconds of computing and of waiting."""
    return app.costs(_TYPICAL_ITEMS, 0, None, np.linspace(0, _TYPICAL_S, _TYPICAL_ITEMS))


@cache
def mean_item_s(app: AppModel) -> float:
    """Return the mean time that an item takes in all stages, computing and waiting, over a run of one hour."""
    cpu_s, wait_s = typical_costs(app)
    return float((cpu_s + wait_s).sum(axis=1).mean())


def _stages(*names: str) -> tuple[StageModel, ...]:
    return tuple(StageModel(name) for name in names)


def _machine(cores: int, start_s: float = 1.0, hop_s: float = 0.0001) -> Machine:
    return Machine(cores, cores, start_s, hop_s)


def _recorded(
    name: str, file: str, stages: tuple[str, ...], factor: float, machine: Machine, bound_s: float
) -> AppModel:
    return AppModel(name, _stages(*stages), machine, bound_s, recorded(file, stages, factor))


_FERRET = ("segment", "extract", "vectorize", "rank")
_PERSON = ("denoise", "detect", "recognize")
_LANE = ("segment", "canny_1", "hough_t", "hough_p", "bitwise", "canny_2", "overlap")
_RECORDED = (
    _recorded("ferret", "ferret", _FERRET, FERRET_FACTOR, _machine(16), 2.8),
    _recorded("person", "person_recognition", _PERSON, PERSON_FACTOR, _machine(16, start_s=10), 1.6),
    _recorded("lane", "lane_detection", _LANE, LANE_FACTOR, _machine(12), 1.8),
    _recorded("bzip2", "bzip2", ("compress",), BZIP2_FACTOR, _machine(8, hop_s=SLOW_HOP_S), 1.3),
    AppModel("tokens", _stages("prefill", "decode"), _machine(16, start_s=60), 4.5, by_tokens("tokens", 0.32, 0.1)),
)

# --- where merging is right, wrong and mixed --------------------------------------------------------------------------

_STATE = (*_stages("read", "parse"), StageModel("session", stateful=True), *_stages("score", "render"))
_DB = (StageModel("parse"), StageModel("query", servers=4), StageModel("render"))
_ACCEL = (StageModel("decode"), StageModel("infer", price=3), StageModel("draw"))
_MIXED = (*_stages("read", "parse"), StageModel("infer", price=2), *_stages("filter", "write"))
_COMPOSED = (
    AppModel(
        "light12",
        _stages(*(f"step_{number}" for number in range(1, 13))),
        _machine(16, hop_s=SLOW_HOP_S),
        0.4,
        drawn("light12", [0.008] * 12),
    ),
    AppModel(
        "wide", _stages("decode", "detect", "draw"), _machine(16, start_s=10), 1.2, drawn("wide", (0.02, 0.2, 0.05))
    ),
    AppModel("state", _STATE, _machine(12), 1.8, drawn("state", (0.03, 0.03, 0.03, 0.04, 0.3))),
    AppModel(
        "db",
        _DB,
        Machine(cores=8, most_workers=24, start_s=1.0, hop_s=SLOW_HOP_S),
        1.6,
        drawn("db", (0.03, 0.02, 0.05), (0.0, 0.28, 0.0)),
    ),
    AppModel("accel", _ACCEL, _machine(12, start_s=10), 1.8, drawn("accel", (0.14, 0.09, 0.22))),
    AppModel("mixed", _MIXED, _machine(12, hop_s=SLOW_HOP_S), 1.6, drawn("mixed", (0.05, 0.07, 0.12, 0.08, 0.08))),
)

# --- costs that are hard to foresee -----------------------------------------------------------------------------------

_DETECT = 1
"""Index of the stage whose cost changes."""


def _detection(
    name: str, change: Change | None, machine: Machine, bound_s: float, means_s: tuple[float, ...] = (0.04, 0.3, 0.1)
) -> AppModel:
    return AppModel(name, _stages("decode", "detect", "draw"), machine, bound_s, drawn(name, means_s, change=change))


_CHANGING = (
    _detection("heavytail", heavy_tail(_DETECT, 0.12, cv=3.0, limit_s=2.2), _machine(12), 2.5),
    _detection("bimodal", bimodal(_DETECT, share=0.1, factor=21.0), _machine(16), 5.5, (0.04, 0.08, 0.1)),
    _detection("regimes", regimes(_DETECT, factor=4.0), _machine(16, start_s=10), 2.6, (0.04, 0.12, 0.1)),
    _detection("slowdown", slow_for_a_while(_DETECT, factor=3.0), _machine(12), 2.2),
    _detection("sixfold", slow_from_half(_DETECT, factor=6.0), _machine(8), 3.0, (0.02, 0.12, 0.05)),
    _detection("leak", leak(_DETECT, growth=0.5), _machine(8), 2.0, (0.03, 0.28, 0.09)),
)

# --- machines with troubles of their own ------------------------------------------------------------------------------


def _bandwidth() -> AppModel:
    app = _detection("bandwidth", None, _machine(8), 1.9)
    return replace(app, stages=tuple(replace(stage, bandwidth=0.25) for stage in app.stages))


_TAKEN = ((600.0, 7), (1200.0, 0), (2100.0, 5), (3000.0, 0))
_DEATHS_S = (400.0, 1000.0, 1003.0, 1006.0, 2000.0, 2600.0, 3200.0, 3201.0)
_TROUBLED = (
    _bandwidth(),
    _detection("stragglers", None, replace(_machine(8), speeds=(1.0, 1.0, 0.5, 1.0, 1.0, 1.0, 0.5, 1.0)), 2.4),
    _detection("neighbours", None, replace(_machine(12, start_s=10), taken=_TAKEN), 1.9),
    _detection("deaths", None, replace(_machine(12, start_s=60), deaths_s=_DEATHS_S), 1.9),
)

_RAY65540 = AppModel(
    "ray65540",
    _stages("upstream", "bottleneck"),
    _machine(128),
    900.0,
    drawn("ray65540", (3.2, 4.0)),
    opening=(83, 4),
)
"""An autoscaler of a data pipeline that came to rest far off (ray-project/ray#65540): 83 upstream and 4 bottleneck
actors on 128 CPUs, with 6,190 blocks queued, where 56 and 70 would balance. The ratio of the costs is theirs, the costs
and the bound are ours."""

APPS: Mapping[str, AppModel] = {app.name: app for app in (*_RECORDED, *_COMPOSED, *_CHANGING, *_TROUBLED, _RAY65540)}


KEYS = ("bound_ms", "cores", "workers", "start_s", "hop_ms", "unit", "wait")
WHOLE = ("cores", "workers", "servers", "price")
WALL, NOTES = ".wall", ("app", "data", "machine", "recorded", "note")
BOUND_OVER_P95 = 3.5
"""Bound over the 95th percentile if the file has no bound."""


def read_app(path: Path) -> AppModel:
    """Return the app that a table of recorded costs describes, as ``python -m lab.gym.record`` writes it.

    It has a column a stage, and may have ``NAME.wall`` beside it. Comments before the header describe the rest:
    ``# bound_ms: 500``, ``# cores: 8``, ``# workers: 8``, ``# start_s: 1``, ``# hop_ms: 0.1``, ``# unit: us`` (or
    ``s``), ``# wait: yes`` (what passed beyond computing was waiting for something else), and
    ``# stage NAME: stateful, servers 4, price 3, bandwidth 0.2``.

    Raises: RecomposeError with one sentence when the file cannot be read or is no such table.
    """
    table = read_table(path)
    names = tuple(column for column in table.columns if not column.endswith(WALL))
    given = _Given(table, {key: value for key, value in table.comments if key not in NOTES})
    stages = tuple(given.stage(name) for name in names)
    unit_s = given.choice("unit", {"us": MICROSECOND_S, "s": 1.0})
    waits = given.choice("wait", {"no": False, "yes": True})
    cpu_s = table.values[:, [table.columns.index(name) for name in names]] * unit_s
    if not names or cpu_s.min() < 0 or not cpu_s.any():
        raise RecomposeError(f"table {table.place!r} must have a stage, and costs from 0 on that are not all zero")
    wait_s = np.zeros_like(cpu_s)
    for index, name in enumerate(names):
        if waits and name + WALL in table.columns:
            wait_s[:, index] = np.maximum(0.0, table.column(name + WALL) * unit_s - cpu_s[:, index])
    cores = int(given.number("cores", 8, least=1))
    workers = int(given.number("workers", cores, least=1))
    machine = Machine(cores, workers, given.number("start_s", 1.0), given.number("hop_ms", 0.1) / 1000)
    usual_ms = 1000 * BOUND_OVER_P95 * float(np.percentile((cpu_s + wait_s).sum(axis=1), 95))
    bound_s = given.number("bound_ms", usual_ms, least=1e-3) / 1000
    given.refuse_others()
    return AppModel(path.stem, stages, machine, bound_s, in_order(path.stem, cpu_s, wait_s))


class _Given:
    """The comments of a user's table; each is taken once."""

    def __init__(self, table: Table, comments: dict[str, str]) -> None:
        self._place, self._left = table.place, comments

    def number(self, key: str, usual: float, least: float = 0.0) -> float:
        return self._number(key, self._left.pop(key, str(usual)), least)

    def _number(self, key: str, text: str, least: float) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        whole = value == int(value) if math.isfinite(value) else False
        if not math.isfinite(value) or value < least or (key.split()[-1] in WHOLE and not whole):
            kind = "whole number" if key.split()[-1] in WHOLE else "number"
            raise self._fault(key, text, f"a {kind} from {figure(least)} on")
        return value

    def choice(self, key: str, choices: Mapping[str, T]) -> T:
        """Return what the comment chooses; the first choice if there is none."""
        text = self._left.pop(key, next(iter(choices)))
        if text not in choices:
            raise self._fault(key, text, " or ".join(choices))
        return choices[text]

    def stage(self, name: str) -> StageModel:
        key = f"stage {name}"
        stage = StageModel(name)
        for word in filter(None, map(str.strip, self._left.pop(key, "").split(","))):
            what, _, text = word.partition(" ")
            if word == "stateful":
                stage = replace(stage, stateful=True)
            elif what == "servers":
                stage = replace(stage, servers=int(self._number(f"{key} servers", text, least=1)))
            elif what == "price":
                stage = replace(stage, price=int(self._number(f"{key} price", text, least=0)))
            elif what == "bandwidth":
                stage = replace(stage, bandwidth=self._number(f"{key} bandwidth", text, least=0))
            else:
                raise self._fault(key, word, "stateful, servers NUMBER, price NUMBER or bandwidth NUMBER")
        return stage

    def refuse_others(self) -> None:
        for key in self._left:
            raise RecomposeError(
                f"table {self._place!r} has the comment {shown(key)}, which is unknown; known are "
                f"{', '.join(KEYS)}, stage NAME of a stage in the header, and {', '.join(NOTES)}"
            )

    def _fault(self, key: str, text: str, must: str) -> RecomposeError:
        return RecomposeError(f"table {self._place!r} has {key}: {shown(text)}; must be {must}")
