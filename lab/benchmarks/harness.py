"""Run a benchmark from the command line: parse its options, let contenders take turns, print results or write JSON.

A benchmark is a module with a function ``measure``. The function's arguments are the options of the command line: an
argument without a default is positional, ``bool`` is a flag, a tuple may be given several times, and the text of an
``Annotated`` type is the help. The function yields results, each a :class:`Table` or :class:`Rows`, and the module ends
with ``main(measure)``. The exit status is 1 if a goal or a check was missed.

Contenders of a table take turns within a round, so that a slow minute of the machine affects all of them. A ratio is
taken within a round, and the median of the rounds is reported.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from inspect import Parameter, signature
from types import UnionType
from typing import Annotated, Any, Literal, NoReturn, get_args, get_origin, get_type_hints

_LOAD_BEFORE = os.getloadavg()[0]

# --- the machine ------------------------------------------------------------------------------------------------------


def metadata() -> dict[str, str]:
    """Return machine, interpreter and libraries: figures of different ones are not comparable."""
    return {
        "machine": f"{_processor()}, {cores()} cores, {platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "libraries": ", ".join(f"{name} {_version(name)}" for name in ("ray", "pyzmq", "numpy")),
        "load before": f"{_LOAD_BEFORE:.2f}",
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def _version(library: str) -> str:
    """Return "none" for a library that this Python lacks: there is no Ray for a free-threaded one."""
    try:
        return version(library)
    except PackageNotFoundError:
        return "none"


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


# --- results ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Goal:
    """A limit for a contender's figure, or for its ratio to that of ``peer``."""

    text: str
    ours: str
    limit: float
    peer: str | None = None
    at_most: bool = False

    def figure(self, rounds: Sequence[Mapping[str, float]]) -> float:
        return statistics.median(turn[self.ours] / (turn[self.peer] if self.peer else 1.0) for turn in rounds)

    def met(self, rounds: Sequence[Mapping[str, float]]) -> bool:
        figure = self.figure(rounds)
        return figure <= self.limit if self.at_most else figure >= self.limit


def at_least(text: str, ours: str, limit: float, peer: str | None = None) -> Goal:
    return Goal(text, ours, limit, peer)


def at_most(text: str, ours: str, limit: float, peer: str | None = None) -> Goal:
    return Goal(text, ours, limit, peer, at_most=True)


@dataclass
class Table:
    """One measured quantity of several contenders, with a figure for each round."""

    title: str
    unit: str
    goals: Sequence[Goal] = ()
    rounds: list[dict[str, float]] = field(default_factory=list)

    def run(self, contenders: Mapping[str, Callable[[], float]], rounds: int) -> Table:
        for _ in range(rounds):
            self.rounds.append({name: measure() for name, measure in contenders.items()})
        return self

    def median(self, name: str) -> float:
        return statistics.median(turn[name] for turn in self.rounds)

    @property
    def met(self) -> bool:
        return all(goal.met(self.rounds) for goal in self.goals)

    def lines(self) -> Iterator[str]:
        yield f"{self.title} [{self.unit}], median of {len(self.rounds)} interleaved rounds (lowest … highest)"
        for name in self.rounds[0]:
            values = [turn[name] for turn in self.rounds]
            yield f"  {name:<34}{_shown(self.median(name)):>10}   ({_shown(min(values))} … {_shown(max(values))})"
        for goal in self.goals:
            sign, verdict = "≤" if goal.at_most else "≥", "met" if goal.met(self.rounds) else "MISSED"
            yield f"  → {goal.text}: {_shown(goal.figure(self.rounds))} {sign} {_shown(goal.limit)} {verdict}"

    def as_json(self) -> dict[str, Any]:
        goals = [
            {**asdict(goal), "figure": goal.figure(self.rounds), "met": goal.met(self.rounds)} for goal in self.goals
        ]
        return {"title": self.title, "unit": self.unit, "rounds": self.rounds, "goals": goals}


@dataclass
class Rows:
    """Figures by name, a row for each case, and checks: sentences that must hold."""

    title: str
    rows: Sequence[Mapping[str, Any]]
    checks: Mapping[str, bool] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        return all(self.checks.values())

    def lines(self) -> Iterator[str]:
        yield self.title
        if len(self.rows) == 1:
            yield from (f"  {name}: {_shown(value)}" for name, value in self.rows[0].items())
        elif self.rows:
            yield from _columns(self.rows)
        yield from (f"  → {text}: {'met' if met else 'MISSED'}" for text, met in self.checks.items())

    def as_json(self) -> dict[str, Any]:
        return {"title": self.title, "rows": [dict(row) for row in self.rows], "checks": dict(self.checks)}


Result = Table | Rows


def _columns(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    head = list(dict.fromkeys(name for row in rows for name in row))
    cells = [head, *([_shown(row.get(name)) for name in head] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        yield "  " + "  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True))


def _shown(value: Any) -> str:
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return "–" if value is None else str(value)


# --- the command line -------------------------------------------------------------------------------------------------

Measure = Callable[..., Iterable[Result]]
Rounds = Annotated[int, "number of rounds"]
Seed = Annotated[int, "seed of all random choices"]


def main(measure: Measure, *, ray: bool = False) -> NoReturn:
    """Run the benchmark with the options of the command line, and exit."""
    raise SystemExit(run(measure, ray=ray))


def run(measure: Measure, arguments: Sequence[str] | None = None, *, ray: bool = False) -> int:
    """Measure and print; return the exit status. ``ray``: connect to a cluster meanwhile."""
    given = vars(parser_of(measure).parse_args(arguments))
    as_json = given.pop("json")
    with ray_if(ray):
        return report(measure(**given), as_json)


def report(results: Iterable[Result], as_json: bool, more: Mapping[str, str] | None = None) -> int:
    """Print each result as soon as it is there, or all as one JSON object; return the exit status."""
    about = {**metadata(), **(more or {})}
    if not as_json:
        print("\n".join(f"{name}: {value}" for name, value in about.items()))
    found = []
    for each in results:
        found.append(each)
        if not as_json:
            print("\n" + "\n".join(each.lines()), flush=True)
    if as_json:
        json.dump({"metadata": about, "tables": [each.as_json() for each in found]}, sys.stdout, indent=1)
        print()
    return 0 if all(each.met for each in found) else 1


def progress(text: str) -> None:
    """Report how far a long measurement is, beside its results."""
    print(text, file=sys.stderr, flush=True)


def parser_of(measure: Measure) -> argparse.ArgumentParser:
    """Return a parser with an option for each argument of ``measure``."""
    document = sys.modules[measure.__module__].__doc__
    parser = argparse.ArgumentParser(description=document, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    kinds = get_type_hints(measure, include_extras=True)
    for name, parameter in signature(measure).parameters.items():
        _add(parser, name, kinds[name], parameter.default)
    return parser


def _add(parser: argparse.ArgumentParser, name: str, kind: Any, default: Any) -> None:
    helps = None
    if get_origin(kind) is Annotated:
        kind, helps = get_args(kind)[:2]
    several = get_origin(kind) is tuple
    kind = get_args(kind)[0] if several else kind
    if default is Parameter.empty:
        parser.add_argument(name, type=kind, help=helps, nargs="*" if several else None)
        return
    flag = f"--{name.rstrip('_').replace('_', '-')}"
    if kind is bool:
        parser.add_argument(flag, dest=name, action="store_true", help=helps)
        return
    if get_origin(kind) is UnionType:
        kind = get_args(kind)[0]
    choices = get_args(kind) if get_origin(kind) is Literal else None
    if default not in (None, ()):
        helps = f"{helps or ''} (default {default})".strip()
    parser.add_argument(
        flag, dest=name, default=default, help=helps, choices=choices, type=type(choices[0]) if choices else kind,
        action=_Several if several else "store",
    )  # fmt: skip


class _Several(argparse.Action):
    """An option that may be given several times; the first time replaces the default."""

    def __call__(self, parser: Any, namespace: Any, value: Any, option: Any = None) -> None:
        known = getattr(namespace, self.dest)
        setattr(namespace, self.dest, (value,) if known is self.default else (*known, value))


@contextmanager
def ray_if(wanted: bool) -> Iterator[None]:
    """Connect to a Ray cluster during the block. If Ray is not wanted, it need not be installed."""
    if not wanted:
        yield
        return
    from runtime.pools.ray import cluster

    cluster.connect()
    try:
        yield
    finally:
        cluster.shutdown()
