"""Show the value of each number and part of the rule: ``python -m lab.gym.study [NAME …] [--out FILE]``.

Each number of :class:`control.rule.settings.RuleSettings` is played at half and at double its value, and each part is
left out once, for twenty minutes on some pairs of the training part. A NAME is a number or a part.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields, replace
from functools import partial
from itertools import starmap
from pathlib import Path
from statistics import fmean

import click

from control.rule.settings import RuleSettings
from control.strategies.expected_cost import ExpectedCost
from lab.gym.player import Strategy, play_run
from lab.gym.score import Score, score_of
from lab.gym.suite import SUITE
from lab.gym.tune import PAIRS, TUNED_S

USUAL = RuleSettings()
WITHOUT: Mapping[str, RuleSettings] = {
    "similar moments": replace(USUAL, similar=0.0),
    "calm": replace(USUAL, calm_after_s=1e9),
    "price that moves": replace(USUAL, steepness=0.0, dual_step=0.0),
    "dual ascent": replace(USUAL, dual_step=0.0),
    "other groups": replace(USUAL, regroup=1e9),
    "hold": replace(USUAL, held_s=0.0),
    "cost of a change": replace(USUAL, change=0.0),
}
"""The rule without a part."""
HEAD = ("setting", "pairs held", "worst window, mean", "cost, mean", "changes/h, mean")


def variants() -> Iterator[tuple[str, RuleSettings]]:
    """Yield the unchanged rule, the rule without each part, and the rule with each number at half and at double."""
    yield "as it is", USUAL
    yield from ((f"without {part}", settings) for part, settings in WITHOUT.items())
    for field in fields(USUAL):
        value = getattr(USUAL, field.name)
        for factor in (0.5, 2.0):
            yield f"{field.name} × {factor:g}", replace(USUAL, **{field.name: type(value)(value * factor)})


def scores_of(settings: RuleSettings) -> list[Score]:
    """Play the rule on each pair."""
    player = Strategy("expected-cost", make=partial(ExpectedCost, settings))
    pairs = [replace(pair, duration_s=TUNED_S) for pair in SUITE if pair.name in PAIRS]
    return [score_of(play_run(pair.play(), player)) for pair in pairs]


def row_of(name: str, scores: list[Score]) -> tuple[object, ...]:
    held, worst = sum(s.holds for s in scores), fmean(s.worst_window for s in scores)
    cost, changes_per_h = fmean(s.cost for s in scores), fmean(s.changes_per_h for s in scores)
    return name, held, round(worst, 3), round(cost, 2), round(changes_per_h)


@click.command(help=__doc__)
@click.argument("names", nargs=-1)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="CSV file.")
@click.option("--processes", type=click.IntRange(1), default=2, show_default=True)
def main(names: tuple[str, ...], out: Path | None, processes: int) -> None:
    chosen = [each for each in variants() if not names or any(name in each[0] for name in ("as it is", *names))]
    with ProcessPoolExecutor(processes) as pool:
        scores = pool.map(scores_of, [settings for _, settings in chosen])
        with out.open("w", newline="", encoding="utf-8") if out else sys.stdout as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(HEAD)
            for row in starmap(row_of, zip((name for name, _ in chosen), scores, strict=True)):
                writer.writerow(row)
                file.flush()


if __name__ == "__main__":
    main()
