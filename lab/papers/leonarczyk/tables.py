"""Tables 5.1 to 5.5 of Leonarczyk 2024 as Markdown: ours beside the published values, per cent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import NamedTuple

from lab.papers.leonarczyk import published
from lab.papers.leonarczyk.grid import OURS, PUBLISHED, Row, Setup
from lab.papers.leonarczyk.published import THRESHOLDS
from lab.papers.report import markdown

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
    """A figure of the tables: its label, its value of a row, if more is better, and the printed values."""

    label: str
    value: Value
    highest: bool
    printed: Mapping[str, tuple[float, ...]]


FIGURES: Mapping[str, Figure] = {
    "batched_hit": Figure("batched", batched_hit, True, published.BATCHED_HIT),
    "itemized_hit": Figure("itemized", itemized_hit, True, published.ITEMIZED_HIT),
    "mad_distance": Figure("MAD", mad_distance, False, published.MAD_DISTANCE),
    "sd_distance": Figure("SD", sd_distance, False, published.SD_DISTANCE),
}
_REPEATED = tuple(FIGURES.values())[:3]


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

    def of(self, controller: str) -> Iterator[Row]:
        """Yield the rows of a controller at every threshold."""
        for (name, _), setups in self._of.items():
            if name == controller:
                for rows in setups.values():
                    yield from rows


def of_the_reachable(rows: Rows, reachable: Row) -> str:
    """Compare itemized hits at 5 % with those of a clairvoyant, in all and by pattern."""
    hits = {name: rows.best(name, THRESHOLDS[0], itemized_hit).value for name in PUBLISHED}
    best = max(hits, key=lambda name: hits[name])
    ours = next(row for row in rows.of(OURS) if row.threshold == THRESHOLDS[0])
    setup = rows.best(best, THRESHOLDS[0], itemized_hit).setup
    theirs = next(row for row in rows.of(best) if row.setup == setup and row.threshold == THRESHOLDS[0])
    names = list(reachable.by_pattern)
    lines = [
        [label, *(_percent(each.itemized_hit) for each in (row.figures, *(row.by_pattern[name] for name in names)))]
        for label, row in (("a clairvoyant", reachable), (f"`{OURS}`", ours), (f"`{best}`, best of the six", theirs))
    ]
    return markdown(["itemized hit", "all", *names], lines)


def hits(rows: Rows) -> str:
    """Table 5.1, with PID's part of table 5.5."""
    return _best_table(rows, [each for each in FIGURES.values() if each.highest])


def distances(rows: Rows) -> str:
    """Table 5.4, with PID's part of table 5.5."""
    return _best_table(rows, [each for each in FIGURES.values() if not each.highest])


def _best_table(rows: Rows, shown: Sequence[Figure]) -> str:
    head = ["threshold", "controller", *(cell for each in shown for cell in (each.label, "published", "with"))]
    lines = []
    for place, threshold in enumerate(THRESHOLDS):
        for controller in (*PUBLISHED, OURS):
            cells = [f"{threshold:.0%}", f"`{controller}`"]
            for each in shown:
                best = rows.best(controller, threshold, each.value, each.highest)
                there = _there(each.printed.get(controller), place)
                cells += [_percent(best.value), there, best.setup.told or "defaults"]
            lines.append(cells)
    return markdown(head, lines)


def best_setups(rows: Rows, controller: str) -> list[Setup]:
    """Return the setups that are best at 5 % in the figures of table 5.2 and the claims."""
    return [rows.best(controller, THRESHOLDS[0], each.value, each.highest).setup for each in _REPEATED]


def deviations(rows: Rows, repeated: Sequence[Row]) -> str:
    """Table 5.2, which has the deviations of hits alone: of the ``repeated`` runs of the setups best in ``rows``."""
    head = ["controller", "batched", "σ published", "itemized", "σ published", "MAD"]
    return markdown(head, [_again(rows, repeated, name) for name in (*PUBLISHED, OURS)])


def _again(rows: Rows, repeated: Sequence[Row], controller: str) -> list[str]:
    cells = [
        _mean_and_deviation([each.value(row) for row in repeated if row.setup == setup])
        for each, setup in zip(_REPEATED, best_setups(rows, controller), strict=True)
    ]
    there = published.HIT_DEVIATION.get(controller)
    return [f"`{controller}`", cells[0], _there(there, 0), cells[1], _there(there, 1), cells[2]]


def _mean_and_deviation(values: Sequence[float]) -> str:
    return f"{_percent(fmean(values))} ± {_percent(stdev(values))}"


def patterns(rows: Rows) -> str:
    """Table 5.3; ``pid`` and ours are not in it there."""
    names = ("increasing", "spike", "decreasing", "binary", "wave")
    lines = []
    for controller in (*PUBLISHED, OURS):
        own = list(rows.of(controller))
        there = published.BY_PATTERN.get(controller, {})
        means = {name: fmean(row.by_pattern[name].itemized_hit for row in own) for name in names}
        lines.append([f"`{controller}`", *(f"{_percent(means[n])} ({there.get(n, '–')})" for n in names)])
    return markdown(["controller", *(f"{name} (published)" for name in names)], lines)


def gains(rows: Rows) -> str:
    """Table 5.5: the best gains of PID."""
    lines = []
    for place, threshold in enumerate(THRESHOLDS):
        for each in FIGURES.values():
            best, there = rows.best("pid", threshold, each.value, each.highest), f"{each.printed['pid'][place]:g}"
            lines.append([f"{threshold:.0%}", each.label, _percent(best.value), there, best.setup.told])
    return markdown(["threshold", "figure", "ours", "published", "with"], lines)


def _percent(share: float) -> str:
    return f"{100 * share:.2f}"


def _there(values: tuple[float, ...] | None, place: int) -> str:
    return "–" if values is None else f"{values[place]:g}"
