"""What a process reads of the arena: each frame as memory of its own, until nothing in the process refers to it."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Sequence
from mmap import PAGESIZE
from typing import Any

from runtime.arena.reference import Reference
from runtime.arena.segment import Bytes, Segment, faults


class _Loan(weakref.ref[Bytes]):
    """Of an array that all views of the frame are made of; ``faults``: see ``Loans``."""

    __slots__ = ("faults", "reference")
    reference: Reference
    faults: int


class Loans:
    """One thread opens. ``let_go`` gets the block of a reference once for each time that it was opened, in any thread.

    A loan has the number of page faults at a time when none of its pages had been written on: as long as there are no
    more, none has been. Only where there are more are the pages looked at. To ask for that number takes as long as the
    process has threads (7 µs with sixty), so a loan that ended is settled when the next one begins, which asks anyway.
    """

    def __init__(self, segment: Segment, let_go: Callable[[int], None]) -> None:
        self._segment, self._let_go = segment, let_go
        self._loans: dict[int, _Loan] = {}
        """By block. A block on loan is not lent again: a stage that keeps its frame may have written on it."""
        self._to_settle: deque[tuple[int, int, int]] = deque()
        """Start, size and faults of loans that ended: their pages may show what was written here."""

    def open(self, frames: Sequence[Any]) -> Sequence[Any]:
        """The frames, those by reference as memory that may be written on."""
        if Reference not in map(type, frames):
            return frames
        return [self._lend(frame) if isinstance(frame, Reference) else frame for frame in frames]

    def holds(self, frame: Any) -> bool:
        """Whether a bytes-like frame is memory on loan."""
        return bool(self._loans) and self._segment.offset_of(frame) is not None

    def passed_on(self, frame: Any) -> Reference | None:
        """What stands for a bytes-like frame that is memory on loan and was not written on."""
        start = self._segment.offset_of(frame) if self._loans else None
        loan = None if start is None else self._around(start)
        if loan is None or start is None or self._is_written(loan, start, len(frame)):
            return None
        return Reference(loan.reference.block, start, len(frame))

    def _lend(self, reference: Reference) -> memoryview:
        block = reference.block
        if block in self._loans:
            copy = bytearray(self._segment.view(reference.start, reference.size))
            self._let_go(block)
            return memoryview(copy)
        now = self._settle()
        own = self._segment.own(reference.start, reference.size)
        loan = self._loans[block] = _Loan(own, self._ended)
        loan.reference, loan.faults = reference, now
        return own.data  # all that is made of it refers to ``own``

    def _around(self, start: int) -> _Loan | None:
        if loan := self._loans.get(start):  # all of a block, as mostly
            return loan
        loans = list(self._loans.values())
        return next((loan for loan in loans if 0 <= start - loan.reference.start < loan.reference.size), None)

    def _is_written(self, loan: _Loan, start: int, size: int) -> bool:
        now = faults()
        if now == loan.faults:
            return False
        written = self._segment.is_written(start, size)
        if not written and size == loan.reference.size:
            loan.faults = now
        return written

    def _ended(self, loan: weakref.ref[Bytes]) -> None:
        assert isinstance(loan, _Loan), "it was made by _lend"
        reference = loan.reference
        # First: once let go it may be lent again.
        self._to_settle.append((reference.start, reference.size, loan.faults))
        del self._loans[reference.block]
        self._let_go(reference.block)

    def _settle(self) -> int:
        """What was written on pages that nobody here refers to any more is forgotten. Returns the faults so far."""
        ended = len(self._to_settle)  # what another thread writes and lets go from here on may not be counted yet
        now = faults()
        for _ in range(ended):
            start, size, faults_then = self._to_settle.popleft()
            if now != faults_then and self._segment.is_written(start, size):
                page = start - start % PAGESIZE
                self._segment.restore(page, start + size - page)
        return now
