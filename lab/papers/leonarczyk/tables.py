"""The rows of a grid by setup, and the figures whose best values the tables of Leonarczyk 2024 print."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from lab.papers.leonarczyk import published
from lab.papers.leonarczyk.grid import BANDED, OURS, PUBLISHED, Row, Setup
from lab.papers.leonarczyk.published import THRESHOLDS

Value = Callable[[Row], float]


def batched_hit(row: Row) -> float:
    return row.figures.batched_hit


def itemized_hit(row: Row) -> float:
    return row.figures.itemized_hit


def mad_distance(row: Row) -> float:
    return row.figures.mad_distance


def sd_distance(row: Row) -> float:
    return row.figures.sd_distance


class Figure(NamedTuple):
    """A figure of the tables: its value in a row, whether a higher value is better, and the printed cells."""

    value: Value
    highest: bool
    printed: published.Column


FIGURES: Mapping[str, Figure] = {
    "batched_hit": Figure(batched_hit, True, published.BATCHED_HIT),
    "itemized_hit": Figure(itemized_hit, True, published.ITEMIZED_HIT),
    "mad_distance": Figure(mad_distance, False, published.MAD_DISTANCE),
    "sd_distance": Figure(sd_distance, False, published.SD_DISTANCE),
}


def printed_setup(controller: str, threshold: float, cell: published.Printed) -> Setup:
    """Return the setup with which a cell of the thesis's tables was reached."""
    return Setup(controller, cell.values, threshold if controller in BANDED else None)


def printed_setups() -> list[Setup]:
    """Return all setups of tables 5.1, 5.4 and 5.5, each once."""
    return list(
        dict.fromkeys(
            printed_setup(controller, threshold, cell)
            for each in FIGURES.values()
            for controller, cells in each.printed.items()
            for threshold, cell in zip(THRESHOLDS, cells, strict=True)
        )
    )


@dataclass(frozen=True, slots=True)
class Best:
    """The best setup of a controller in one figure, and its mean over the repetitions."""

    setup: Setup
    value: float


class Rows:
    """The rows of a whole grid, by controller, threshold and setup."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._of: dict[tuple[str, float], dict[Setup, list[Row]]] = {}
        for row in rows:
            self._of.setdefault((row.setup.controller, row.threshold), {}).setdefault(row.setup, []).append(row)

    def means(self, controller: str, threshold: float, value: Value) -> dict[Setup, float]:
        """Return means over the repetitions, by setup."""
        return {setup: fmean(map(value, rows)) for setup, rows in self._of[controller, threshold].items()}

    def best(self, controller: str, threshold: float, value: Value, highest: bool = True) -> Best:
        means = self.means(controller, threshold, value)
        setup = (max if highest else min)(means, key=lambda each: means[each])
        return Best(setup, means[setup])

    def runs(self, setup: Setup, threshold: float, value: Value) -> list[float]:
        """Return the value of every repetition; empty if there are none."""
        return [value(row) for row in self._of.get((setup.controller, threshold), {}).get(setup, [])]

    def of(self, controller: str) -> Iterator[Row]:
        """Yield the rows of a controller at every threshold."""
        for (name, _), setups in self._of.items():
            if name == controller:
                for rows in setups.values():
                    yield from rows


def of_the_reachable(rows: Rows, reachable: Row) -> list[dict[str, object]]:
    """Return itemized hits at 5 % beside those of a clairvoyant, per cent, in all and by pattern."""
    best = max(PUBLISHED, key=lambda name: rows.best(name, THRESHOLDS[0], itemized_hit).value)
    ours = next(row for row in rows.of(OURS) if row.threshold == THRESHOLDS[0])
    setup = rows.best(best, THRESHOLDS[0], itemized_hit).setup
    theirs = next(row for row in rows.of(best) if row.setup == setup and row.threshold == THRESHOLDS[0])
    return [
        {"controller": label, "all": 100 * row.figures.itemized_hit}
        | {name: 100 * row.by_pattern[name].itemized_hit for name in reachable.by_pattern}
        for label, row in (("a clairvoyant", reachable), (OURS, ours), (f"{best}, best of the six", theirs))
    ]


def by_pattern(rows: Rows, controller: str) -> dict[str, float]:
    """Return itemized hits by pattern, means over all combinations, as in table 5.3."""
    own = list(rows.of(controller))
    return {name: fmean(row.by_pattern[name].itemized_hit for row in own) for name in own[0].by_pattern}
