"""The input rate as users write it, and its conversion to a pattern."""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import ModuleType
from typing import Any

from apps.rates import Binary, Custom, Decreasing, Fixed, Increasing, Rate, Spike, Trace, Wave
from compositions.errors import RecomposeError
from compositions.wording import figure

_ACCESS_TIME = re.compile(
    r"\[(?P<day>\d{2})/(?P<month>[A-Z][a-z]{2})/(?P<year>\d{4}):(?P<h>\d{2}):(?P<m>\d{2}):(?P<s>\d{2})"
    r" (?P<sign>[+-])(?P<zone_h>\d{2})(?P<zone_m>\d{2})\]"
)
# Month names of the log format are always English, whereas those of strptime depend on the locale.
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def read_arrivals(path: Path) -> tuple[float, ...]:
    """Return arrival times in seconds, sorted, as a log is written in the order in which requests end. Raises:
    RecomposeError if the file cannot be read or a line has neither of the two forms."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            return tuple(sorted(parse_arrivals(lines, str(path))))
    except OSError as error:
        raise RecomposeError(f"trace file {str(path)!r} cannot be read: {error.strerror}") from error


def parse_arrivals(lines: Iterable[str], name: str) -> Iterable[float]:
    """Yield a time for every line that is neither blank nor a ``#`` comment. ``name``: the file, for error messages."""
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        arrival_s = _seconds(text)
        if arrival_s is None:
            raise RecomposeError(
                f"line {number} of trace {name!r} is {text[:60]!r}; "
                "must be a time in seconds, or an access-log line with [day/Mon/year:hour:minute:second zone]"
            )
        yield arrival_s


def _seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return _access_seconds(text)
    return value if math.isfinite(value) else None


def _access_seconds(text: str) -> float | None:
    found = _ACCESS_TIME.search(text)
    if found is None or found["month"] not in _MONTHS:
        return None
    offset = timedelta(hours=int(found["zone_h"]), minutes=int(found["zone_m"]))
    day = int(found["year"]), _MONTHS.index(found["month"]) + 1, int(found["day"])
    clock = int(found["h"]), int(found["m"]), int(found["s"])
    try:
        zone = timezone(offset if found["sign"] == "+" else -offset)
        return datetime(*day, *clock, tzinfo=zone).timestamp()
    except ValueError:  # a date that does not exist
        return None


_RANGED: dict[str, Callable[..., Rate]] = {
    "wave": Wave,
    "binary": Binary,
    "increasing": Increasing,
    "decreasing": Decreasing,
    "spike": Spike,
}
CUSTOM = "custom:"


@dataclass(frozen=True, slots=True)
class RateSpec:
    """The ``input`` of a start body: a rate, a pattern with its range, a trace, a function of the user's
    (``custom:module:function``), or nothing for an unpaced source."""

    rate_per_s: float | None = None
    pattern: str | None = None
    period_s: float | None = None
    min_per_s: float | None = None
    max_per_s: float | None = None
    size_percent: float = 10.0
    path: str | Path | None = None


ModuleOf = Callable[[str], ModuleType]
"""Returns the user's module of a name. Raises: RecomposeError if there is none."""


def no_module(name: str) -> ModuleType:
    raise RecomposeError(f"module {name!r}: custom input patterns are in the folders of apps; give --apps")


def from_spec(spec: RateSpec, module_of: ModuleOf = no_module) -> Rate | None:
    """Return the described pattern; None: unpaced. ``module_of`` finds a custom pattern's module. Raises:
    RecomposeError for a value that is out of range, missing, or excluded by another."""
    pattern, rate_per_s, path = spec.pattern, spec.rate_per_s, spec.path
    ranged = {"period_s": spec.period_s, "min_per_s": spec.min_per_s, "max_per_s": spec.max_per_s}
    if pattern is None:
        what = "an input without a pattern" if rate_per_s is None else f"input rate_per_s = {rate_per_s}"
        _refuse(ranged | {"path": path}, what)
        return None if rate_per_s is None else Fixed(rate_per_s)
    if rate_per_s is not None:
        both = f"rate_per_s = {figure(rate_per_s, 6)} and pattern = {pattern!r}"
        raise RecomposeError(f"input has both {both}; give one of them")
    if pattern.startswith(CUSTOM):
        _refuse(ranged | {"path": path}, f"input pattern {pattern!r}")
        return _custom(pattern, module_of)
    if pattern == "trace":
        _refuse({"min_per_s": spec.min_per_s}, "input pattern 'trace'")
        return _trace(**_require(pattern, path=path, period_s=spec.period_s), max_per_s=spec.max_per_s)
    if pattern not in _RANGED:
        known = ", ".join([*_RANGED, "trace"])
        raise RecomposeError(f"unknown input pattern {pattern!r}; known patterns are {known}, {CUSTOM}MODULE:FUNCTION")
    _refuse({"path": path}, f"input pattern {pattern!r}")
    size = {"size_percent": spec.size_percent} if pattern == "spike" else {}
    return _RANGED[pattern](**_require(pattern, **ranged), **size)


def _custom(pattern: str, module_of: ModuleOf) -> Custom:
    """Return a custom pattern, after one test call, so that an invalid function is refused before anything runs."""
    name, _, function_name = pattern.removeprefix(CUSTOM).partition(":")
    function = getattr(module_of(name), function_name, None)
    if not callable(function):
        raise RecomposeError(f"input pattern {pattern!r}: module {name!r} has no function {function_name!r}")
    rate = Custom(function)
    try:
        rate(0.0)
    except RecomposeError:
        raise
    except Exception as error:  # the user's code may raise any error
        raise RecomposeError(f"input pattern {pattern!r} fails at 0 s: {type(error).__name__}: {error}") from error
    return rate


def _trace(path: str | Path, period_s: float, max_per_s: float | None) -> Trace:
    return Trace(read_arrivals(Path(path)), period_s, max_per_s)


def _require(pattern: str, **values: Any) -> dict[str, Any]:
    missing = [name for name, value in values.items() if value is None]
    if missing:
        raise RecomposeError(f"input pattern {pattern!r} needs {', '.join(missing)} as well")
    return values


def _refuse(values: dict[str, Any], what: str) -> None:
    excess = [name for name, value in values.items() if value is not None]
    if excess:
        raise RecomposeError(f"{what} does not accept {', '.join(excess)}")
