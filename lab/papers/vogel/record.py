"""Keep what the findings rest on, out of the raw runs of ``recompose experiment``.

    python -m lab.papers.vogel.record FOLDER [FOLDER …]

FOLDER is one of ``--out``; what is recorded of other experiments stays.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean, pstdev

from pydantic import BaseModel

from lab.experiments.contender import Measurement, Point
from lab.papers.report import read_file

PLACE = Path(__file__).parent / "recorded" / "runs.json"
LIMITS_MS = (180, 200)
"""Constraints of the paper on SPar."""
SETTLED_S = 20.0
"""From then on violations and changes count: a farm that begins with one replica has grown by then."""


class Run(BaseModel):
    """One run of a contender. ``overall_per_s`` is of the whole run, ``achieved_per_s`` of the time after the warm-up;
    ``inside_ms``: latency from a worker's hand on, with the standard deviation of its half seconds."""

    achieved_per_s: float
    overall_per_s: float
    latency_ms: float | None
    inside_ms: float | None
    oscillation_ms: float
    above: dict[int, float]
    """Share of the control steps of a second, by constraint, whose mean latency inside was above it."""
    changes: int
    """Of the number of workers."""
    moved: int
    """Workers added and removed by them."""
    visited: tuple[tuple[float, str], ...] = ()
    """When which composition became active; empty where replicas are regulated."""


class Recorded(BaseModel):
    facts: dict[str, dict[str, str]]
    """By experiment: revision and version that it was measured with."""
    runs: dict[str, dict[str, list[Run]]]
    """By experiment and contender."""


def recorded() -> Recorded:
    """Raises: RecomposeError when the record cannot be read."""
    return read_file(PLACE, Recorded, "python -m lab.papers.vogel.record")


def run_of(measured: Measurement) -> Run:
    late = [sample for sample in measured.samples if sample.at_s > SETTLED_S]
    inside = [sample.inside_ms for sample in measured.samples if sample.inside_ms is not None]
    steps = list(_steps(late))
    steps_of_workers = [abs(after.workers - before.workers) for before, after in pairwise(late)]
    regulated = measured.contender in ("spar", "two-sided")
    return Run(
        achieved_per_s=round(measured.achieved_per_s, 3),
        overall_per_s=round(fmean(sample.throughput_per_s for sample in measured.samples), 3),
        latency_ms=_rounded(measured.latency_ms),
        inside_ms=_rounded(measured.inside_ms),
        oscillation_ms=round(pstdev(inside), 1) if inside else 0.0,
        above={limit: round(fmean(step > limit for step in steps), 3) for limit in LIMITS_MS} if steps else {},
        changes=sum(map(bool, steps_of_workers)),
        moved=sum(steps_of_workers),
        visited=() if regulated else tuple(_visited(measured.samples)),
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _steps(samples: Sequence[Point]) -> Iterator[float]:
    """Yield the mean latency inside of each second, of two samples."""
    for first, second in zip(samples[::2], samples[1::2], strict=False):
        known = [(s.inside_ms, s.throughput_per_s) for s in (first, second) if s.inside_ms is not None]
        if known:
            yield sum(ms * weight for ms, weight in known) / sum(weight for _, weight in known)


def _visited(samples: Sequence[Point]) -> Iterator[tuple[float, str]]:
    before = None
    for sample in samples:
        if sample.composition != before:
            yield sample.at_s, sample.composition
        before = sample.composition


def main(folders: Sequence[str]) -> None:
    found = recorded() if PLACE.exists() else Recorded(facts={}, runs={})
    for folder in (each for place in folders for each in sorted(Path(place).iterdir()) if each.is_dir()):
        raw = [Measurement.from_json(json.loads(file.read_text())) for file in sorted(folder.glob("raw/*.json"))]
        raw.sort(key=lambda measured: measured.repetition)
        found.facts[folder.name] = json.loads((folder / "metadata.json").read_text())
        names = sorted({measured.contender for measured in raw})
        found.runs[folder.name] = {name: [run_of(each) for each in raw if each.contender == name] for name in names}
    lines = [json.dumps(found.facts, sort_keys=True)]
    lines += [f"{json.dumps(name)}: {_compact(runs)}" for name, runs in sorted(found.runs.items())]
    body = ",\n".join(lines[1:])
    PLACE.parent.mkdir(exist_ok=True)
    PLACE.write_text(f'{{"facts": {lines[0]},\n"runs": {{\n{body}\n}}}}\n')


def _compact(runs: dict[str, list[Run]]) -> str:
    return json.dumps({name: [run.model_dump(mode="json") for run in each] for name, each in runs.items()})


if __name__ == "__main__":
    main(sys.argv[1:])
