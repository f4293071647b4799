"""Where results go for good, besides the window of the API: a port, and the rows that go through it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Row(NamedTuple):
    """Of one item there is one, or any number where a stage gave several values (``part`` 0, 1 …) or none. Their run
    and serial number tell doubles."""

    serial: int
    part: int | None
    value: str | None
    """JSON."""
    error: str | None


class Gather(NamedTuple):
    """How much is gathered for one write: so many items, or as many as have come in so long."""

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
