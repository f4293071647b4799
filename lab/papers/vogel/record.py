"""The runs that the findings rest on, as ``python -m lab.benchmarks.vogel_record`` keeps them."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from lab.papers.report import read_file

PLACE = Path(__file__).parent / "recorded" / "runs.json"


class Run(BaseModel):
    """One run of a contender. ``overall_per_s`` is of the whole run, ``achieved_per_s`` of the time after the warm-up;
    ``inside_ms``: latency from a worker's hand on."""

    achieved_per_s: float
    overall_per_s: float
    latency_ms: float | None
    inside_ms: float | None
    oscillation_ms: float
    """Standard deviation of the half seconds' latency inside."""
    above: dict[int, float]
    """Share of the control steps of a second, by constraint, whose mean latency inside was above it."""
    changes: int
    """Of the number of workers."""
    moved: int
    """Workers added and removed by them."""
    visited: tuple[tuple[float, str], ...] = ()
    """When which composition became active; empty where replicas are regulated."""


class Recorded(BaseModel):
    """Facts (revision, version), by experiment; runs, by experiment and contender."""

    facts: dict[str, dict[str, str]] = {}
    runs: dict[str, dict[str, list[Run]]] = {}


def recorded() -> Recorded:
    """Raises: RecomposeError when the record cannot be read."""
    return read_file(PLACE, Recorded, "python -m lab.benchmarks.vogel_record")
