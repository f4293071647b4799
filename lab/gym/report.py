"""Write the results of the gym: tables, every run as CSV, and a picture for each load."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from statistics import fmean, median
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from datapipe.report.plots import BANDS, OFFERED, page, table
from lab.gym.contest import PICTURE_STEP_S, Result
from lab.gym.model import windows_of
from lab.gym.plant import VERSION

matplotlib.use("Agg")
EXPLAINED = (
    "Holds: share of the (app, load) pairs in which the share of items in time reached the objective in every window "
    "of five minutes. Cost: cost of the workers alive divided by that of the cheapest schedule that a search in "
    "hindsight found, and by the floor, which no schedule undercuts; medians over the pairs that hold. In time: share "
    "of all items in time. Worst minute: lowest share of a minute, median. Changes: changes per hour, median."
)
HEADS = ("policy", "holds", "cost / best found", "cost / floor", "in time", "worst minute", "changes / h")
_DRAWN = 4
"""Maximum number of policies in a picture."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The results of a policy over several pairs, each with the same weight."""

    policy: str
    holds: float
    over_best: float
    """Median over the pairs on which the objective holds; infinite if there are none."""
    over_floor: float
    in_time: float
    worst_minute: float
    changes_per_h: float

    def cells(self) -> tuple[str, ...]:
        over = ["–" if math.isinf(each) else f"{each:.2f}" for each in (self.over_best, self.over_floor)]
        shares = f"{self.in_time:.3f}", f"{self.worst_minute:.2f}", f"{self.changes_per_h:.0f}"
        return (self.policy, f"{self.holds:.2f}", *over, *shares)


def standings(results: Sequence[Result]) -> tuple[Standing, ...]:
    """Return a row for each policy, ordered by the number of pairs on which it holds, then by cost."""
    rows = [
        _standing(name, [each for each in results if each.policy == name])
        for name in dict.fromkeys(each.policy for each in results)
    ]
    return tuple(sorted(rows, key=lambda row: (-row.holds, row.over_best, -row.in_time)))


def _standing(policy: str, own: Sequence[Result]) -> Standing:
    held = [each for each in own if each.score.holds]
    return Standing(
        policy,
        len(held) / len(own),
        median(each.over_best for each in held) if held else math.inf,
        median(each.over_floor for each in held) if held else math.inf,
        fmean(each.score.in_time for each in own),
        median(each.score.worst_minute for each in own),
        median(each.score.changes_per_h for each in own),
    )


def write(folder: Path, results: Sequence[Result], facts: Mapping[str, str]) -> Path:
    """Write ``report.html``, ``report.md``, ``runs.csv`` and the pictures; return the page. Raises: OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "runs.csv").write_text(as_csv(results), encoding="utf-8")
    (folder / "report.md").write_text(as_markdown(results, facts), encoding="utf-8")
    pictures = {}
    for pair in dict.fromkeys(each.pair for each in results):
        pictures[pair.name] = pair.name.replace("/", "-") + ".svg"
        drawn = picture([each for each in results if each.pair == pair], results)
        (folder / pictures[pair.name]).write_bytes(drawn)
    report = folder / "report.html"
    report.write_text(_as_html(results, facts, pictures), encoding="utf-8")
    return report


def as_csv(results: Sequence[Result]) -> str:
    """Return every run, with its bound."""
    text = io.StringIO()
    rows = [
        {
            **{"pair": each.pair.name, "group": each.pair.group, "part": each.pair.part, "policy": each.policy},
            **{key: round(value, 4) for key, value in asdict(each.score).items()},
            **{"floor": each.bound.floor, "found": each.bound.found, "schedule": each.bound.schedule},
        }
        for each in results
    ]
    written = csv.DictWriter(text, list(rows[0]) if rows else ["pair"], lineterminator="\n")
    written.writeheader()
    written.writerows(rows)
    return text.getvalue()


def as_plain(result: Result) -> dict[str, Any]:
    """Return a run for programs: costs in worker-seconds of the judged time; ``bound`` is the cheapest schedule found,
    None if none holds the objective, and ``floor`` what no schedule is below."""
    pair, score = result.pair, result.score
    judged_s = windows_of(pair.play()).judged_s
    costs = {"cost": score.cost, "bound": result.bound.found, "floor": result.bound.floor}
    return {
        **{"app": pair.app, "load": pair.load, "seed": pair.seed, "policy": result.policy, "held": score.holds},
        **{"late_share": round(1 - score.in_time, 4), "worst_minute": round(score.worst_minute, 4)},
        **{name: None if math.isinf(each) else round(each * judged_s, 1) for name, each in costs.items()},
        "changes": round(score.changes_per_h * judged_s / 3600),
    }


def as_markdown(results: Sequence[Result], facts: Mapping[str, str]) -> str:
    """Return the tables: over all pairs, by group, and each pair."""
    facts_listed = "\n".join(f"- {name}: {value}" for name, value in facts.items())
    parts = [f"## {title}\n\n{_rows(rows)}" for title, rows in _tables(results).items()]
    return "\n\n".join(["# The gym", EXPLAINED, facts_listed, *parts]) + "\n"


def _tables(results: Sequence[Result]) -> dict[str, list[tuple[str, ...]]]:
    def rows_of(chosen: Sequence[Result]) -> list[tuple[str, ...]]:
        return [HEADS, *(row.cells() for row in standings(chosen))]

    groups = dict.fromkeys(each.pair.group for each in results)
    by_group = {f"Group {group}": rows_of([each for each in results if each.pair.group == group]) for group in groups}
    return {"All pairs": rows_of(results), **by_group, "Pair by pair": _by_pair(results)}


def _by_pair(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """Return for each policy its cost over the best found, in brackets if the objective does not hold."""
    pairs = list(dict.fromkeys(each.pair for each in results))
    found = {(each.policy, each.pair): each for each in results}
    rows: list[tuple[str, ...]] = [("policy", *(pair.name for pair in pairs))]
    for policy in dict.fromkeys(each.policy for each in results):
        cells = []
        for pair in pairs:
            each = found.get((policy, pair))
            shown = "" if each is None else f"{each.over_best:.2f}"
            cells.append(shown if each is None or each.score.holds else f"({shown})")
        rows.append((policy, *cells))
    return rows


def _rows(rows: Sequence[tuple[str, ...]]) -> str:
    lines = [rows[0], ("---", *["---:"] * (len(rows[0]) - 1)), *rows[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _as_html(results: Sequence[Result], facts: Mapping[str, str], pictures: Mapping[str, str]) -> str:
    listed = ", ".join(f"{name} {value}" for name, value in facts.items())
    tables = [f"<h2>{escape(title)}</h2>{table(rows[0], rows[1:])}" for title, rows in _tables(results).items()]
    drawn = [f'<h3>{escape(name)}</h3><img alt="{escape(name)}" src="{file}">' for name, file in pictures.items()]
    about = f"<p>{escape(EXPLAINED)}</p><p>Plant {VERSION}. {escape(listed)}</p>"
    return page("Recompose: the gym", [about, *tables, *drawn])


def picture(own: Sequence[Result], results: Sequence[Result]) -> bytes:
    """Return a picture of one pair as SVG: load, workers alive, late items and decisions on one time axis.

    It shows the policies that stand best over all results.
    """
    best = [row.policy for row in standings(results)][:_DRAWN]
    shown = [each for name in best for each in own if each.policy == name]
    figure = Figure(figsize=(11, 7), layout="constrained")
    axes: Any = figure.subplots(4, 1, sharex=True, height_ratios=[2, 3, 2, 1])
    due_s = own[0].pair.play().work.due_s
    counts = np.bincount((due_s // PICTURE_STEP_S).astype(np.int64)) / PICTURE_STEP_S
    axes[0].plot(PICTURE_STEP_S / 60 * np.arange(len(counts)), counts, color=OFFERED, linewidth=0.8)
    axes[0].set_ylabel("items/s")
    for row, each in enumerate(shown):
        colour, course = BANDS[(2 * row) % len(BANDS)], each.course
        at_min = PICTURE_STEP_S / 60 * np.arange(len(course.alive))
        axes[1].step(at_min, course.alive, where="post", color=colour, linewidth=0.9, label=each.policy)
        axes[2].step(np.arange(len(course.late)), course.late, where="post", color=colour, linewidth=0.9)
        axes[3].plot([c.at_s / 60 for c in course.changes], [row] * len(course.changes), "|", color=colour)
    axes[1].axhline(own[0].bound.floor, color="#888", linewidth=0.7, linestyle=":")
    axes[1].set_ylabel("workers alive")
    axes[1].legend(loc="upper right", fontsize="small", frameon=False)
    axes[2].set_ylabel("late / min")
    axes[3].set_ylabel("decisions")
    axes[3].set_yticks(range(len(shown)), [each.policy for each in shown], fontsize="small")
    axes[3].set_xlabel("minutes")
    file = io.BytesIO()
    figure.savefig(file, format="svg")
    return file.getvalue()
