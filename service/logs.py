"""Structured logs on stderr, and the prints of apps at a limited rate; no tokens, passwords or bodies."""

import io
import json
import logging
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, MutableMapping
from time import monotonic
from typing import Any

import structlog

from compositions.wording import without_users
from service.schemas.results import LogLine

Tell = Callable[[str, str], None]

LINES_PER_S = 200
"""Maximum number of lines per second from all workers of an app together; further lines are only counted."""
WORKER = "recompose-"
"""Prefix of the names of threads that are workers of the pool ``local``."""


class Printed:
    """Passes printed lines on. May be used from any thread."""

    def __init__(self, tell: Tell, clock: Callable[[], float] = monotonic) -> None:
        self._tell, self._clock = tell, clock
        self._lock = threading.Lock()
        self._second_s = clock()
        self._shown, self._left_out = 0, 0

    def line(self, who: str, text: str) -> None:
        with self._lock:
            if self._clock() - self._second_s >= 1.0:
                self._begin_second()
            if self._shown < LINES_PER_S:
                self._shown += 1
                self._tell(who, text)
            else:
                self._left_out += 1

    def close(self) -> None:
        """Report the lines that were left out last."""
        with self._lock:
            self._begin_second()

    def _begin_second(self) -> None:
        if self._left_out:
            self._tell("recompose", f"{self._left_out:,} lines left out; at most {LINES_PER_S} a second are shown")
        self._second_s, self._shown, self._left_out = self._clock(), 0, 0


class PrintedHere(io.TextIOBase):
    """Replaces ``sys.stdout``: passes on what the threads of this process write, each thread's lines separately."""

    encoding = "utf-8"

    def __init__(self, printed: Printed) -> None:
        self._printed = printed
        self._begun = threading.local()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._begun.text = (vars(self._begun).get("text", "") + text).split("\n")
        for line in lines:
            self._printed.line(threading.current_thread().name.removeprefix(WORKER), line)
        return len(text)


LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Recent:
    """The latest lines, for clients of the service. May be used from any thread."""

    def __init__(self, most: int = 2000) -> None:
        self._lines: deque[LogLine] = deque(maxlen=most)
        self._lock = threading.Lock()
        self._next = 1

    def __call__(self, logger: Any, method: str, said: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Store the line; called as a processor of structlog, passes everything on."""
        about = {name: _plain(value) for name, value in said.items() if name not in _OWN and not name.startswith("_")}
        event, at, level = without_users(str(said["event"])), str(said.get("at", "")), str(said.get("level", method))
        with self._lock:
            self._lines.append(LogLine(id=self._next, at=at, level=level, event=event, about=about))
            self._next += 1
        return said

    def read(self, app: str | None, after: int, limit: int) -> list[LogLine]:
        """Return the newest ``limit`` lines with an id above ``after``, oldest first; with ``app``, its lines."""
        with self._lock:
            lines = list(self._lines)
        wanted = [line for line in lines if line.id > after and (app is None or _concerns(line, app))]
        return wanted[-limit:]


def _concerns(line: LogLine, app: str) -> bool:
    """Return whether a line is about the app, or printed by its process (named ``recompose-SERVICE-APP…``)."""
    printer = str(line.about.get("by", "")).partition(" ")[0]
    return app in (line.about.get("app"), printer.split("-", 2)[-1])


_OWN = ("event", "level", "at")


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | bool | None) else without_users(str(value))


def configure(level: str = "info", *, console: bool | None = None, recent: Recent | None = None) -> None:
    """Set up structlog and the standard loggers. ``console``: readable lines, not JSON (None: on a terminal)."""
    readable = sys.stderr.isatty() if console is None else console
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        *([recent] if recent is not None else []),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=_rendering(readable)))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[level])
    for noisy in ("httpx", "httpcore", "watchfiles", "sse_starlette"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def relay(who: str, line: str) -> None:
    """Log a line of another process: our own log lines as they are, Ray's at debug, others as output of an app."""
    text, log = _ANSI.sub("", line), structlog.get_logger()
    said = _logged(text)
    if said is not None:
        level, event = LEVELS[str(said["level"])], str(said["event"])
        log.log(level, event, **{name: value for name, value in said.items() if name not in _TAKEN}, by=who)
    elif _RAYS_OWN.match(text):
        log.debug("ray", by=who, line=text)
    else:
        log.info("printed", by=who, line=text)


def _logged(text: str) -> Mapping[str, object] | None:
    """Return the fields of a line that ``configure`` formatted; None for other lines, also an app's imitations."""
    if not text.startswith("{"):
        return None
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    level, event = said.get("level"), said.get("event")
    ours = isinstance(level, str) and level in LEVELS and isinstance(event, str) and "at" in said
    return said if ours else None


_TAKEN = {"level", "event", "at", "by", "self"}
"""Names reserved for the logger and for the writer of the line; a line must not set them."""
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_RAYS_OWN = re.compile(r"\[\d{4}-\d\d-\d\d [\d:,]+ [A-Z] \d+ \d+\]|\*\*\* SIG|\s*@ +0x[0-9a-f]+|\[symbolize_")
"""Pattern of the lines of Ray's C++ code, including its stacks."""


def _rendering(readable: bool) -> list[Any]:
    bare = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if readable:
        return [bare, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()), _hide]
    return [bare, structlog.processors.format_exc_info, structlog.processors.JSONRenderer(), _hide]


def _hide(logger: Any, method: str, line: Any) -> str:
    """Remove passwords from addresses, also in lines of libraries and apps."""
    return without_users(str(line))
