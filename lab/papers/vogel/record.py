"""Keep what the comparison with both papers of Vogel et al. rests on, out of raw runs of ``recompose experiment``.

    python -m lab.papers.vogel.record FOLDER [FOLDER …]

FOLDER is one of its ``--out``; what is recorded of other experiments stays.
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

PLACE = Path(__file__).parent / "recorded" / "runs.json"
LIMITS_MS = (180, 200)
"""Constraints of the paper on SPar."""
SETTLED_S = 20.0
"""Time in seconds from which violations and changes count; a farm that begins with one replica has grown by then."""


class Run(BaseModel):
    """One run of a contender: rates of the whole run and after the warm-up; latency as workers see it."""

    achieved_per_s: float
    overall_per_s: float
    latency_ms: float | None
    inside_ms: float | None
    oscillation_ms: float
    """Standard deviation of the inside latency over half seconds."""
    above: dict[int, float]
    """By constraint: share of the control steps of one second whose mean inside latency exceeded it."""
    changes: int
    """Number of changes of the number of workers."""
    moved: int
    """Number of workers that these changes added or removed."""
    visited: tuple[tuple[float, str], ...] = ()
    """Times when compositions became active; empty if replicas are regulated."""


def values(runs: Sequence[Run], name: str) -> list[float]:
    """Return a field of the runs, if it is known."""
    return [float(value) for run in runs if (value := getattr(run, name)) is not None]


class Recorded(BaseModel):
    """Facts (revision, version), by experiment; runs, by experiment and contender."""

    facts: dict[str, dict[str, str]] = {}
    runs: dict[str, dict[str, list[Run]]] = {}


def recorded() -> Recorded:
    """Return the record. Raises: OSError when there is none."""
    return Recorded.model_validate_json(PLACE.read_bytes())


def run_of(measured: Measurement) -> Run:
    late = [sample for sample in measured.samples if sample.at_s > SETTLED_S]
    inside = [sample.inside_ms for sample in measured.samples if sample.inside_ms is not None]
    steps, moves = list(_steps(late)), [abs(after.workers - before.workers) for before, after in pairwise(late)]
    visited = [(s.at_s, s.composition) for s in measured.samples]
    first = [each for before, each in zip([(0.0, ""), *visited], visited, strict=False) if each[1] != before[1]]
    return Run(
        achieved_per_s=round(measured.achieved_per_s, 3),
        overall_per_s=round(fmean(sample.throughput_per_s for sample in measured.samples), 3),
        latency_ms=None if measured.latency_ms is None else round(measured.latency_ms, 1),
        inside_ms=None if measured.inside_ms is None else round(measured.inside_ms, 1),
        oscillation_ms=round(pstdev(inside), 1) if inside else 0.0,
        above={limit: round(fmean(step > limit for step in steps), 3) for limit in LIMITS_MS} if steps else {},
        changes=sum(map(bool, moves)),
        moved=sum(moves),
        visited=() if measured.contender in ("spar", "two-sided") else tuple(first),
    )


def _steps(samples: Sequence[Point]) -> Iterator[float]:
    """Yield the mean latency inside of each second, of two samples."""
    for pair in zip(samples[::2], samples[1::2], strict=False):
        known = [(s.inside_ms, s.throughput_per_s) for s in pair if s.inside_ms is not None]
        if known:
            yield sum(ms * weight for ms, weight in known) / sum(weight for _, weight in known)


def main(folders: Sequence[str]) -> None:
    found = recorded() if PLACE.exists() else Recorded()
    for folder in (each for place in folders for each in sorted(Path(place).iterdir()) if each.is_dir()):
        raw = [Measurement.from_json(json.loads(file.read_text())) for file in folder.glob("raw/*.json")]
        raw.sort(key=lambda measured: (measured.contender, measured.repetition))
        found.facts[folder.name] = json.loads((folder / "metadata.json").read_text())
        names = dict.fromkeys(measured.contender for measured in raw)
        found.runs[folder.name] = {name: [run_of(each) for each in raw if each.contender == name] for name in names}
    PLACE.parent.mkdir(exist_ok=True)
    PLACE.write_text(found.model_dump_json(indent=None).replace('"runs":', '\n"runs":').replace("]},", "]},\n") + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
