"""Bodies of refusals (RFC 9457), health checks, log lines and undelivered data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from service.schemas.base import Answer


class Problem(Answer):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    serials: list[int] | None = None
    """Of many items that were pushed, those that were taken before one was refused."""
    run: str | None = None
    """Of these serial numbers."""


class ResultsGone(Problem):
    """A refusal of results that are gone, with those that are retained; null if there are none."""

    run: str | None
    from_: int | None = Field(validation_alias="from", serialization_alias="from")
    """The oldest serial number."""
    to: int | None
    """The latest one."""


class FieldError(Answer):
    loc: list[str | int]
    msg: str
    line: int | None = None
    """Of a compositions document, where it can be told."""


class ValidationProblem(Problem):
    errors: list[FieldError]


class Health(Answer):
    status: Literal["alive", "ready"]


Plain = str | int | float | bool | None


class LogLine(Answer):
    id: int
    """From 1 with each start of the service; read on with the last one as ``after``."""
    at: str
    level: str
    event: str
    about: Mapping[str, Plain] = {}
    """What else is said: ``app``; of what an app printed, ``by`` and ``line``."""


class OwingRun(Answer):
    """A durable run that holds undelivered data."""

    app: str
    run: str
    epoch: int | None
    """Epoch of its last runner; null if the journal cannot be read."""
    items: int | None
    """Number of items that were acknowledged and not delivered."""
    results: int | None
    """Number of results that were delivered and are not in their sink."""
    journal: str
    present: bool
    """True if the service runs it or tries to; false: a start of the app continues it."""
    fault: str | None
    """Reason why the journal cannot be read."""
