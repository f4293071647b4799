"""Lines of the service's log in answers."""

from __future__ import annotations

from collections.abc import Mapping

from service.bodies.base import Answer
from service.logs import Line

Plain = str | int | float | bool | None


class LogLine(Answer):
    id: int
    """From 1 with each start of the service; read on with the last one as ``after``."""
    at: str
    level: str
    event: str
    about: Mapping[str, Plain] = {}
    """What else is said: ``app``; of what an app printed, ``by`` and ``line``."""

    @classmethod
    def of(cls, line: Line) -> LogLine:
        return cls(id=line.id, at=line.at, level=line.level, event=line.event, about=line.about)
