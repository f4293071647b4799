"""The interface of a sink, which stores results durably beside the API's result buffer, and the rows written to it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from compositions.errors import RecomposeError


class Row(NamedTuple):
    """A result row. An item has one, or any number if a stage returned several values (``part`` 0, 1 …) or none. Run,
    serial number and part identify duplicates."""

    serial: int
    part: int | None
    value: str | None
    """The result as JSON; None for a failed item."""
    error: str | None


class Gather(NamedTuple):
    """The limits of one write: a number of items, or a time for which items are collected."""

    items: int
    wait_s: float


AT_ONCE = Gather(2_000, 0.0)
"""Write without a delay: each write has the results that came during the one before."""


class Sink(Protocol):
    """A sink, used by one thread at a time. Each method raises OSError if the place cannot be reached now (the same
    call may succeed later), RecomposeError if it never can or a later epoch continues the run."""

    @property
    def gather(self) -> Gather: ...

    def begin(self, next_serial: int, known: int) -> int:
        """Exclude earlier epochs, and delete their results from ``next_serial`` on, as these items come again. Return
        the serial number before which all results are stored. ``known``: the number known before the call."""

    def write(self, until: int, rows: Sequence[Row]) -> None:
        """Write atomically and durably: the rows of the items from the last ``until`` (or ``begin``'s answer) to before
        this one. After an error, the same call is repeated; a write whose answer was lost must not be done twice."""

    def close(self) -> None: ...


def followed(run: str) -> RecomposeError:
    """Return the error of a sink whose run a later epoch has taken over."""
    return RecomposeError(f"another epoch goes on with run {run}; this one writes nothing any more")


MOST = 4000
"""Maximum number of characters; escaped and with the other fields, NATS, MQTT and RabbitMQ still accept them."""


def line_of(text: str) -> str:
    """Return the text as one printable line: white space becomes a space, other characters are escaped as in Python,
    and a long text loses its middle. (MQTT brokers disconnect at a line break; a lone surrogate cannot be sent.)."""
    line = " ".join(text.split()) or " "
    if len(line) > MOST:
        line = f"{line[: MOST // 2]} ... {line[-MOST // 2 :]}"
    return line if line.isprintable() else "".join(map(_printable, line))


def _printable(sign: str) -> str:
    return sign if sign.isprintable() else sign.encode("unicode_escape").decode()


class Sent:
    """The acknowledged rows of one runner. A failed write continues after them, so that only others may be doubled."""

    def __init__(self) -> None:
        self._until = 0
        """Serial number before which all items are stored."""
        self._rows: set[tuple[int, int | None]] = set()
        """Further stored rows, by serial number and part."""

    def missing(self, rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if row.serial >= self._until and (row.serial, row.part) not in self._rows]

    def add(self, row: Row) -> None:
        self._rows.add((row.serial, row.part))

    def all_before(self, until: int) -> None:
        """Record that all items before ``until`` are stored, and forget their rows."""
        self._until = until
        self._rows.clear()
