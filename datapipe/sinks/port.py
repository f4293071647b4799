"""The port of a sink, a lasting place for results beside the window of the API, and the rows that are written to it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from compositions.errors import RecomposeError


class Row(NamedTuple):
    """A result row. An item has one, or any number if a stage gave several values (``part`` 0, 1 …) or none. Their run
    and serial number tell doubles."""

    serial: int
    part: int | None
    value: str | None
    """JSON."""
    error: str | None


class Gather(NamedTuple):
    """The limits of one write: a number of items, or a time in which they gather."""

    items: int
    wait_s: float


AT_ONCE = Gather(2_000, 0.0)
"""Whatever has come during the write before is the next one."""


class Sink(Protocol):
    """One thread at a time. Of each: OSError when it cannot be reached now, and the same call may succeed later;
    RecomposeError when it never will, or when a later epoch goes on with the run."""

    @property
    def gather(self) -> Gather: ...

    def begin(self, next_serial: int, known: int) -> int:
        """Shuts out the epochs before this one, and forgets what they wrote of items from ``next_serial`` on, which
        come again. Items with serial numbers below the answer are there; those below ``known`` were known to be."""

    def write(self, until: int, rows: Sequence[Row]) -> None:
        """All of it or nothing, for good: the rows of the items from the last ``until``, or the answer of ``begin``, to
        before this one. After an error the same again: what was done before the answer was lost is not done twice."""

    def close(self) -> None: ...


def followed(run: str) -> RecomposeError:
    """Return the error of a sink whose run is another epoch's now."""
    return RecomposeError(f"another epoch goes on with run {run}; this one writes nothing any more")


MOST = 4000
"""Characters: escaped, with what else is told, they are less than NATS, MQTT and RabbitMQ take."""


def line_of(text: str) -> str:
    """White space becomes a space, what cannot be printed is escaped as Python does it (a broker of MQTT hangs up at a
    line break, and at half a character nothing can be sent at all), and of much text the middle is left out."""
    line = " ".join(text.split()) or " "
    if len(line) > MOST:
        line = f"{line[: MOST // 2]} ... {line[-MOST // 2 :]}"
    return line if line.isprintable() else "".join(map(_printable, line))


def _printable(sign: str) -> str:
    return sign if sign.isprintable() else sign.encode("unicode_escape").decode()


class Sent:
    """The writes of one runner: an attempt that broke off is continued, so that only the unanswered is doubled."""

    def __init__(self) -> None:
        self._until = 0
        """All of the items below are there."""
        self._rows: set[tuple[int, int | None]] = set()
        """And these, by serial number and part."""

    def missing(self, rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if row.serial >= self._until and (row.serial, row.part) not in self._rows]

    def add(self, row: Row) -> None:
        self._rows.add((row.serial, row.part))

    def all_before(self, until: int) -> None:
        """They are there; nobody will ask for their rows again."""
        self._until = until
        self._rows.clear()
