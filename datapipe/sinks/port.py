"""The port of a sink, which stores results permanently outside the service, and the rows that are written to a sink."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from compositions.errors import RecomposeError


class Row(NamedTuple):
    """A result row. An item has one row, or one per value (``part`` 0, 1 …) if a stage returned several values or none.
    Run, serial number and part identify a row, so a reader can recognize duplicates."""

    serial: int
    part: int | None
    value: str | None
    """The result as JSON; None if the item failed."""
    error: str | None


class Gather(NamedTuple):
    """The limits of one write: a number of items, and a time in seconds to wait until so many items are there."""

    items: int
    wait_s: float


AT_ONCE = Gather(2_000, 0.0)
"""A write takes at once all results that arrived during the previous write, up to the number of items."""


class Sink(Protocol):
    """Called by one thread at a time. Each method raises OSError if the sink cannot be reached now, and is called again
    later; RecomposeError if the call can never succeed, or if a later epoch has taken over the run."""

    @property
    def gather(self) -> Gather: ...

    def begin(self, next_serial: int, known: int) -> int:
        """Reject all further writes of earlier epochs, and delete their rows of items from ``next_serial`` on, which
        will be written again. Return the serial number below which the sink has all items; a sink that cannot know
        it returns ``known``, the number below which the runner's journal says that items are stored."""

    def write(self, until: int, rows: Sequence[Row]) -> None:
        """Store ``rows`` permanently, all or none. They belong to the items from the previous ``until`` (first, the
        number that ``begin`` returned) to before this ``until``. After an OSError the same call is repeated, because
        only its answer may have been lost; a row that is already stored must not be stored again."""

    def close(self) -> None: ...


def followed(run: str) -> RecomposeError:
    """Return the error to raise when a later epoch has taken over the run."""
    return RecomposeError(f"another runner has taken over run {run}; this one may not write any more")


MOST = 4000
"""Maximum length of an error text, in characters: escaped, it fits into the headers of NATS, MQTT and RabbitMQ."""


def line_of(text: str) -> str:
    """Return ``text`` as one printable line: white space becomes a space, other characters are escaped as in Python,
    and the middle of a long text is cut out. An MQTT broker disconnects at a line break, and lone surrogates fail."""
    line = " ".join(text.split()) or " "
    if len(line) > MOST:
        line = f"{line[: MOST // 2]} ... {line[-MOST // 2 :]}"
    return line if line.isprintable() else "".join(map(_printable, line))


def _printable(sign: str) -> str:
    return sign if sign.isprintable() else sign.encode("unicode_escape").decode()


class Sent:
    """The rows that one runner has sent. After an interrupted write only the rows without an answer are sent again."""

    def __init__(self) -> None:
        self._until = 0
        """Serial number below which all items are in the sink."""
        self._rows: set[tuple[int, int | None]] = set()
        """Rows from there on that are in the sink, by serial number and part."""

    def missing(self, rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if row.serial >= self._until and (row.serial, row.part) not in self._rows]

    def add(self, row: Row) -> None:
        self._rows.add((row.serial, row.part))

    def all_before(self, until: int) -> None:
        """Record that all items below ``until`` are in the sink; their rows are not written again."""
        self._until = until
        self._rows.clear()
