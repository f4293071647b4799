"""Bodies of refusals (RFC 9457)."""

from __future__ import annotations

from pydantic import Field

from service.bodies.base import Answer


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
    """What is kept instead; null where there is nothing."""

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
