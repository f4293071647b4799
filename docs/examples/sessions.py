"""Lines of a web server's log to sessions of its visitors to SQL: ``python sessions.py [FILE]``."""

import re
import sqlite3
import sys
from datetime import datetime
from pathlib import Path

from recompose import END, Clock, KeyedWindows, Outputs, Pane, Sessions, Stage, StageKind, Windowing, pipeline, run

LINE = re.compile(r'(?P<address>\S+) \S+ \S+ \[(?P<time>[^\]]+)\] "\S+ (?P<page>\S+)[^"]*" (?P<status>\d+)')
LINES = """\
10.0.0.1 - - [17/May/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 12
10.0.0.2 - - [17/May/2026:10:01:00 +0000] "GET /tea HTTP/1.1" 200 12
10.0.0.1 - - [17/May/2026:10:04:30 +0000] "GET /tea HTTP/1.1" 200 12
not a line of a log
10.0.0.2 - - [17/May/2026:10:06:00 +0000] "GET /pay HTTP/1.1" 500 12
10.0.0.1 - - [17/May/2026:10:50:00 +0000] "GET / HTTP/1.1" 200 12
"""
CLOCK = Clock(behind=60, every=600)
VISITS = KeyedWindows(
    Windowing(Sessions(gap=1800), lambda pages, page: (*(pages or ()), page), merge=lambda one, two: one + two)
)
"""A session ends after half an hour without a request."""


def parse(line):
    """Return (address, seconds since 1970, page); a line that is none is left out."""
    if line is None:
        return None, END, None
    if (found := LINE.match(line)) is None:
        return Outputs()
    time = datetime.strptime(found["time"], "%d/%b/%Y:%H:%M:%S %z").timestamp()
    return found["address"], time, found["page"]


def sessions(request, state):
    """Emit the sessions that are over; the state is how far the log is, and the open sessions by address."""
    (reading, visits), (address, time, page) = state or (None, {}), request
    _, reading = CLOCK.seen(reading, time)
    closed = list(VISITS.advance(visits, END if address is None else reading.watermark))
    if address is not None:
        closed += VISITS.put(visits, address, time, page, reading.watermark)
    over = ((key, pane.window.start, pane.value) for key, pane in closed if isinstance(pane, Pane))
    return Outputs(over), (reading, visits)


app = pipeline(parse, (Stage("sessions", StageKind.STATEFUL), sessions))

if __name__ == "__main__":
    lines = (Path(sys.argv[1]).read_text(errors="replace") if len(sys.argv) > 1 else LINES).splitlines()
    table = sqlite3.connect("sessions.db")
    table.execute("CREATE TABLE IF NOT EXISTS sessions (address, began, pages, PRIMARY KEY (address, began))")
    for result in run(app, source=[*lines, None], pool="local"):
        address, began, pages = result.value
        table.execute("REPLACE INTO sessions VALUES (?, datetime(?, 'unixepoch'), ?)", (address, began, len(pages)))
    table.commit()
    for row in table.execute("SELECT address, count(*), sum(pages), max(began) FROM sessions GROUP BY address"):
        print("{}: sessions {}, pages {}, the last session from {}".format(*row))
