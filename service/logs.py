"""Structured logs on stderr: JSON lines, or readable lines on a terminal. Tokens and bodies are never logged."""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import structlog

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


@dataclass(frozen=True, slots=True)
class Line:
    """What was logged: ``about`` are its fields, as plain data."""

    id: int
    at: str
    level: str
    event: str
    about: Mapping[str, Any]

    def concerns(self, app: str) -> bool:
        """Logged about it, or printed by a process of it, whose names begin with ``recompose-SERVICE-APP``."""
        printer = str(self.about.get("by", "")).partition(" ")[0]
        return app in (self.about.get("app"), printer.split("-", 2)[-1])


class Recent:
    """The latest lines, for who asks the service. May be used from any thread."""

    def __init__(self, most: int = 2000) -> None:
        self._lines: deque[Line] = deque(maxlen=most)
        self._lock = threading.Lock()
        self._next = 1

    def __call__(self, logger: Any, method: str, said: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """As a processor of structlog: lets everything pass."""
        about = {name: _plain(value) for name, value in said.items() if name not in _OWN and not name.startswith("_")}
        with self._lock:
            line = Line(self._next, str(said.get("at", "")), str(said.get("level", method)), str(said["event"]), about)
            self._lines.append(line)
            self._next += 1
        return said

    def read(self, app: str | None, after: int, limit: int) -> list[Line]:
        """The newest ``limit`` lines with an id above ``after``, oldest first; of ``app`` alone where one is given."""
        with self._lock:
            lines = list(self._lines)
        wanted = [line for line in lines if line.id > after and (app is None or line.concerns(app))]
        return wanted[-limit:]


_OWN = ("event", "level", "at")


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def configure(level: str = "info", *, console: bool | None = None, recent: Recent | None = None) -> None:
    """Sets up structlog, and the standard library's loggers (uvicorn's) in the same form.

    ``console``: readable lines instead of JSON; None decides by whether stderr is a terminal. ``recent`` keeps them.
    """
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


def quiet() -> None:
    """In a program that is not ours, and has said nothing about it: warnings on stderr, its own loggers as they are."""
    if not structlog.is_configured():
        structlog.configure(
            wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        )


def _rendering(readable: bool) -> list[Any]:
    bare = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if readable:
        return [bare, structlog.dev.ConsoleRenderer(colors=True)]
    return [bare, structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
