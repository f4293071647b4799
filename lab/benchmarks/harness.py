"""Shared parts of all benchmarks: interleaved rounds, a table with the machine it was measured on, JSON.

Contenders take turns within a round, so that a slow minute of the machine hits all of them; a ratio is taken within a
round and the median of the rounds is reported.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
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


def options(document: str | None, quick: str = "", *, rounds: int = 0, peers: bool = False) -> argparse.ArgumentParser:
    """Return a parser of the options that benchmarks share; ``quick`` and ``rounds`` add theirs, ``peers`` two more."""
    parser = argparse.ArgumentParser(description=document.splitlines()[0] if document else None)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    if quick:
        parser.add_argument("--quick", action="store_true", help=quick)
    if rounds:
        parser.add_argument("--rounds", type=int, default=rounds)
    if peers:
        parser.add_argument("--peers", type=Path, metavar="FOLDER", help="where peers are installed, if not here")
        number: Callable[[str], int | str] = lambda text: text if text == "auto" else int(text)  # noqa: E731
        parser.add_argument("--items", type=number, default="auto", help="of ours in a bundle: a number, or auto")
    return parser


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


Measure = Callable[[int, int], list[Table]]
"""Gets rounds, and items a round."""


def compare(document: str | None, measure: Measure, *, quick: tuple[int, int], long: tuple[int, int]) -> None:
    """Reads the command line and prints what came out; ``document``: the module's own, whose first line is the help."""
    arguments = options(document, f"{quick[0]} short rounds instead of {long[0]} long ones").parse_args()
    with ray_if(True):
        report(measure(*(quick if arguments.quick else long)), arguments.json)


@contextmanager
def ray_if(wanted: bool) -> Iterator[None]:
    """Connected meanwhile. Where it is not wanted it need not be there: free-threaded Python has none."""
    if not wanted:
        yield
        return
    from runtime.pools.ray import cluster

    cluster.connect()
    try:
        yield
    finally:
        cluster.shutdown()
