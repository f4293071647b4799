"""Arrival times from a file: one time in seconds a line, or a web server's access log."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path

from compositions.errors import RecomposeError

_ACCESS_TIME = re.compile(
    r"\[(?P<day>\d{2})/(?P<month>[A-Z][a-z]{2})/(?P<year>\d{4}):(?P<h>\d{2}):(?P<m>\d{2}):(?P<s>\d{2})"
    r" (?P<sign>[+-])(?P<zone_h>\d{2})(?P<zone_m>\d{2})\]"
)
# Month names of the log format are English wherever the service runs, which strptime's are not.
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def read_arrivals(path: Path) -> tuple[float, ...]:
    """Arrival times in seconds, ascending (a log is written when a request ends, so not in order of arrival).

    Raises: RecomposeError when the file cannot be read or a line is neither of the two forms.
    """
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            return tuple(sorted(parse_arrivals(lines, str(path))))
    except OSError as error:
        raise RecomposeError(f"trace file {str(path)!r} cannot be read: {error.strerror}") from error


def parse_arrivals(lines: Iterable[str], name: str) -> Iterable[float]:
    """One time for every line that is neither blank nor a ``#`` comment; ``name`` is for the error's sentence."""
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
