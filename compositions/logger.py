"""Loggers of structlog, which is imported at the first log line: the import takes 0.1 s, and most scripts log none."""

import sys
from typing import Any

_WARNING = 30
_in_a_program = False


class Logger:
    """A logger with ``fields`` bound to it; its methods are structlog's."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):  # pickle looks for some
            raise AttributeError(method)
        import structlog

        if _in_a_program and not structlog.is_configured():
            own = structlog.make_filtering_bound_logger(_WARNING)
            structlog.configure(wrapper_class=own, logger_factory=structlog.PrintLoggerFactory(sys.stderr))
        return getattr(structlog.get_logger(**self._fields), method)


def quiet() -> None:
    """Log only warnings, to stderr, in a user's program that has not configured structlog."""
    global _in_a_program  # noqa: PLW0603 - a process-wide setting, as structlog's own configuration
    _in_a_program = True
