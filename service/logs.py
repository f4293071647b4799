"""Structured logs on stderr: JSON lines, or readable lines on a terminal. Tokens and bodies are never logged."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(level: str = "info", *, console: bool | None = None) -> None:
    """Sets up structlog, and the standard library's loggers (uvicorn's) in the same form.

    ``console``: readable lines instead of JSON; None decides by whether stderr is a terminal.
    """
    readable = sys.stderr.isatty() if console is None else console
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
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


def _rendering(readable: bool) -> list[Any]:
    bare = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if readable:
        return [bare, structlog.dev.ConsoleRenderer(colors=True)]
    return [bare, structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
