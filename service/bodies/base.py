"""What all bodies share: how they become JSON, their units, and the one text form of a time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

Clock = Callable[[float], str]
"""Seconds of a loop's clock to the text of a time."""
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""RFC 3339, in UTC, to the millisecond, with ``Z``."""
_ANY = TypeAdapter(Any)


class Answer(BaseModel):
    """A frozen body. It may grow fields: whoever reads one keeps those that it does not know.

    What is set is served, null where it was not measured; a field that was not given is left out. Its validator is
    built at first use: a command or a runner uses a few bodies of the many that it imports.
    """

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True, defer_build=True)


def plain(body: object) -> Any:
    """JSON data of a body, or of a list of bodies: the fields that are set, by their names in the API."""
    return _ANY.dump_python(body, mode="json", by_alias=True, exclude_unset=True)


def json_of(body: object) -> str:
    """The text of what ``plain`` makes, at a third of the cost; NaN and infinities are null. Raises: ValueError for a
    lone surrogate."""
    return _ANY.dump_json(body, by_alias=True, exclude_unset=True, ensure_ascii=True).decode("ascii")


def ms(seconds: float | None) -> float | None:
    """Milliseconds, three decimals; None stays None."""
    return None if seconds is None else round(seconds * 1e3, 3)


def rounded(value: float | None) -> float | None:
    """Four decimals; None stays None."""
    return None if value is None else round(value, 4)


def time_text(epoch_s: float) -> str:
    """The text of an instant, seconds since 1970."""
    return _text(datetime.fromtimestamp(epoch_s, UTC))


def utc_now() -> str:
    """The text of this instant."""
    return _text(datetime.now(UTC))


def read_time(text: str) -> datetime:
    """Of any RFC 3339 text, that of earlier versions (``+00:00``) too. Raises: ValueError."""
    return datetime.fromisoformat(text)


def _text(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
