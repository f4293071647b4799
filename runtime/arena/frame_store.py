"""Store large frames when values become frames, and fetch them when frames become values."""

import threading
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from mmap import PAGESIZE
from typing import Any

from compositions.errors import RecomposeError
from runtime.arena.arena import Arena
from runtime.arena.reference import LARGE_BYTES, Block, Bytes, Reference, Segment, faults, in_pages


class Holds:
    """Each block as often as it was given, and let go as often. From any thread."""

    def __init__(self) -> None:
        self._blocks: dict[int, list[Block]] = {}
        self._lock = threading.RLock()
        """The collector may let go of one in the middle of adding another."""

    def add(self, frames: Iterable[Any]) -> None:
        """The blocks of those frames that are references."""
        for frame in frames:
            if isinstance(frame, Reference) and frame.keeper is not None:
                with self._lock:
                    self._blocks.setdefault(frame.block, []).append(frame.keeper)

    def get(self, start: int) -> Block | None:
        held = self._blocks.get(start)
        return held[0] if held else None

    def drop(self, start: int) -> None:
        """Once. One that is not held, or no longer, is nothing."""
        with self._lock:
            if held := self._blocks.get(start):
                held.pop()
                if not held:
                    del self._blocks[start]

    def clear(self) -> None:
        self._blocks.clear()


class _Loan(weakref.ref[Bytes]):
    """The owner of an array on which all views of the frame rest; ``faults``: see ``Loans``."""

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
        """Return whether a bytes-like frame is memory on loan."""
        return bool(self._loans) and self._segment.offset_of(frame) is not None

    def passed_on(self, frame: Any) -> Reference | None:
        """Return what stands for a bytes-like frame that is memory on loan and was not written on."""
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


class Copies:
    """For who has no arena and whose values may change while their frames wait."""

    def keep(self, frames: list[Any]) -> list[Any]:
        """Frames that can be carried, for frames of which all but the first, a pickle, share the memory of a value."""
        return list(map(bytes, frames))

    def open(self, frames: Sequence[Any]) -> Sequence[Any]:
        """Bytes-like frames, for what was carried; whoever gets them may write on them."""
        return frames


class AsTheyAre(Copies):
    """For a worker without a part in the arena: it sends frames before their value changes."""

    has_room = False
    """The latest task brought room."""
    ended: Collection[int] = ()
    """What ``let_go`` has to tell: mostly nothing, and then it need not be asked."""

    def enter(self, room: Sequence[int]) -> None:
        """A task begins, with room to write to: start and size, or nothing."""

    def let_go(self) -> list[int]:
        """Return the blocks that this process let go of since the last call, each as often as it was opened."""
        return []

    def keep(self, frames: list[Any]) -> list[Any]:
        return frames


class RunnerShelf:
    """The frame store of the process that owns the arena."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._holds = Holds()
        self._loans = Loans(arena.segment, self._holds.drop)

    def keep(self, frames: list[Any]) -> list[Any]:
        """Large ones in the arena, or copied where it has no room."""
        store = self._arena.store
        return [(store(frame) if len(frame) >= LARGE_BYTES else None) or bytes(frame) for frame in frames]

    def open(self, frames: Sequence[Any]) -> Sequence[Any]:
        self._holds.add(frames)
        return self._loans.open(frames)


class WorkerShelf:
    """For a worker that has a part in the arena."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self.ended: deque[int] = deque()
        self._loans = Loans(segment, self.ended.append)
        self.open = self._loans.open
        self._room_at = self._room_to = 0
        self.has_room = False

    def enter(self, room: Sequence[int]) -> None:
        start, size = room or (0, 0)
        self._room_at, self._room_to, self.has_room = start, start + size, size > 0

    def let_go(self) -> list[int]:
        return [self.ended.popleft() for _ in range(len(self.ended))]

    def keep(self, frames: list[Any]) -> list[Any]:
        """Refer to what is large: where it came from, if passed on unchanged, else in the room."""
        return [self._kept(frame) for frame in frames]

    def _kept(self, frame: Any) -> Any:
        if len(frame) >= LARGE_BYTES:
            reference = self._loans.passed_on(frame) or self._placed(frame)
            if reference is not None:
                return reference
        if type(frame) is bytes or not self._loans.holds(frame):
            return frame
        return bytes(frame)  # what is on loan is let go before it is sent

    def _placed(self, frame: Any) -> Reference | None:
        start, size = self._room_at, len(frame)
        if start + size > self._room_to:
            return None
        self._segment.write(start, frame)
        self._room_at += in_pages(size)
        return Reference(start, start, size)


TaskShelf = AsTheyAre | WorkerShelf
Shelf = Copies | RunnerShelf | WorkerShelf


def shelf_of(descriptor: int | None) -> TaskShelf:
    """A worker's, with a part in the arena if it was handed its descriptor, which is closed.

    Raises: RecomposeError when this process cannot have that memory.
    """
    if descriptor is None:
        return AsTheyAre()
    try:
        segment = Segment(descriptor)
    except OSError as error:
        cure = "the setting shared_memory = 0 has all frames copied"
        what = "a worker cannot map the memory that it shares with the runner"
        raise RecomposeError(f"{what}: {error}; {cure}") from error
    segment.forget_descriptor()
    return WorkerShelf(segment)
