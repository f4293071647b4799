"""What all benchmarks share: interleaved rounds, a table with the machine it was measured on, JSON.

Contenders take turns within a round, so that a slow minute of the machine hits all of them; a ratio is taken within a
round and the median of the rounds is reported.
"""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

_LOAD_BEFORE = os.getloadavg()[0]


def metadata() -> dict[str, str]:
    """Machine, interpreter and libraries: figures of different ones are not comparable."""
    return {
        "machine": f"{_processor()}, {cores()} cores, {platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "libraries": ", ".join(f"{name} {_version(name)}" for name in ("ray", "pyzmq", "numpy")),
        "load before": f"{_LOAD_BEFORE:.2f}",
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def _version(library: str) -> str:
    """Not every Python has them all: there is no Ray for a free-threaded one."""
    try:
        return version(library)
    except PackageNotFoundError:
        return "none"


def median_interval(values: Sequence[float], sure: float = 0.95) -> tuple[float, float]:
    """Has the median of what the values are drawn from, at least so ``sure`` and whatever its law: the sign test
    turned round. Of fewer than six values it is the least and the most, less sure. Raises: IndexError without values.
    """
    ordered = sorted(values)
    cut, outside = 0, 2 * 0.5 ** len(ordered)
    while (outside := outside + 2 * math.comb(len(ordered), cut + 1) * 0.5 ** len(ordered)) <= 1 - sure:
        cut += 1
    return ordered[cut], ordered[-1 - cut]


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


@dataclass(frozen=True)
class Goal:
    """``ours`` against ``peer`` times ``factor``; ``at_most`` or at least."""

    text: str
    ours: str
    peer: str
    limit: float
    at_most: bool

    def ratio(self, rounds: Sequence[Mapping[str, float]]) -> float:
        return statistics.median(turn[self.ours] / turn[self.peer] for turn in rounds)

    def met(self, rounds: Sequence[Mapping[str, float]]) -> bool:
        ratio = self.ratio(rounds)
        return ratio <= self.limit if self.at_most else ratio >= self.limit


@dataclass
class Table:
    """One measured quantity of several contenders, a figure a round each."""

    title: str
    unit: str
    goals: Sequence[Goal] = ()
    rounds: list[dict[str, float]] = field(default_factory=list)

    def run(self, contenders: Mapping[str, Callable[[], float]], rounds: int) -> None:
        for _ in range(rounds):
            self.rounds.append({name: measure() for name, measure in contenders.items()})

    def median(self, name: str) -> float:
        return statistics.median(turn[name] for turn in self.rounds)

    def lines(self) -> list[str]:
        rows = [f"{self.title} [{self.unit}], median of {len(self.rounds)} interleaved rounds (lowest … highest)"]
        for name in self.rounds[0]:
            values = [turn[name] for turn in self.rounds]
            rows.append(f"  {name:<34}{self.median(name):>10.3f}   ({min(values):.3f} … {max(values):.3f})")
        for goal in self.goals:
            sign, verdict = "≤" if goal.at_most else "≥", "met" if goal.met(self.rounds) else "MISSED"
            rows.append(f"  → {goal.text}: {goal.ratio(self.rounds):.3f} {sign} {goal.limit:.3f} {verdict}")
        return rows

    def as_json(self) -> dict[str, Any]:
        goals = [
            {**asdict(goal), "ratio": goal.ratio(self.rounds), "met": goal.met(self.rounds)} for goal in self.goals
        ]
        return {"title": self.title, "unit": self.unit, "rounds": self.rounds, "goals": goals}


def report(tables: Sequence[Table], as_json: bool, more: Mapping[str, str] | None = None) -> None:
    """Prints all tables with their metadata, and ``more`` of it; with ``as_json`` as one JSON object."""
    about = {**metadata(), **(more or {})}
    if as_json:
        json.dump({"metadata": about, "tables": [table.as_json() for table in tables]}, sys.stdout, indent=1)
        print()
        return
    for name, value in about.items():
        print(f"{name}: {value}")
    for table in tables:
        print("\n" + "\n".join(table.lines()))


def tell(figures: Mapping[str, Any], as_json: bool) -> None:
    """Prints figures that are no comparison: one object, or a line each."""
    if as_json:
        json.dump(figures, sys.stdout, indent=1)
        return
    for name, value in figures.items():
        print(f"{name}: {value}")
