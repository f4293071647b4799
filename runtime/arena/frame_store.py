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
    """Blocks that are in use, each counted as often as it was added. Thread-safe."""

    def __init__(self) -> None:
        self._blocks: dict[int, list[Block]] = {}
        self._lock = threading.RLock()
        """Reentrant, as the garbage collector may drop a block in the middle of ``add``."""

    def add(self, frames: Iterable[Any]) -> None:
        """Add the blocks of those frames that are references."""
        for frame in frames:
            if isinstance(frame, Reference) and frame.keeper is not None:
                with self._lock:
                    self._blocks.setdefault(frame.block, []).append(frame.keeper)

    def get(self, start: int) -> Block | None:
        held = self._blocks.get(start)
        return held[0] if held else None

    def drop(self, start: int) -> None:
        """Drop a block once; ignore a block that is not held."""
        with self._lock:
            if held := self._blocks.get(start):
                held.pop()
                if not held:
                    del self._blocks[start]

    def clear(self) -> None:
        self._blocks.clear()


class _Loan(weakref.ref[Bytes]):
    """A weak reference to the array that all views of a lent frame refer to; ``faults``: see ``Loans``."""

    __slots__ = ("faults", "reference")
    reference: Reference
    faults: int


class Loans:
    """Lends frames of the arena to stages as private writable memory. Only one thread calls ``open``. ``let_go`` is
    called with a reference's block once for each time that the reference was opened, in any thread.

    A loan stores the process's number of page faults at a time when none of its pages had been written to. While the
    number is the same, none has been; only if it has grown are the pages checked. Reading the number takes longer the
    more threads the process has (7 µs with sixty), so ended loans are settled when the next one begins, which reads it.
    """

    def __init__(self, segment: Segment, let_go: Callable[[int], None]) -> None:
        self._segment, self._let_go = segment, let_go
        self._loans: dict[int, _Loan] = {}
        """Present loans by block. A lent block is not lent again: a stage may still have its frame and change it."""
        self._to_settle: deque[tuple[int, int, int]] = deque()
        """Start, size and faults of ended loans, whose pages may have private changes."""

    def open(self, frames: Sequence[Any]) -> Sequence[Any]:
        """Return the frames, with references replaced by writable memory."""
        if Reference not in map(type, frames):
            return frames
        return [self._lend(frame) if isinstance(frame, Reference) else frame for frame in frames]

    def holds(self, frame: Any) -> bool:
        """Return whether a bytes-like frame lies in the arena's private memory (a lent frame)."""
        return bool(self._loans) and self._segment.offset_of(frame) is not None

    def passed_on(self, frame: Any) -> Reference | None:
        """Return the reference to a lent bytes-like frame that was not modified; None for other frames."""
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
        return own.data  # all views of the frame refer to ``own``

    def _around(self, start: int) -> _Loan | None:
        if loan := self._loans.get(start):  # the usual case: a whole block
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
        # This comes first: once the block is let go, it may be lent again.
        self._to_settle.append((reference.start, reference.size, loan.faults))
        del self._loans[reference.block]
        self._let_go(reference.block)

    def _settle(self) -> int:
        """Drop private changes to pages of ended loans. Return the number of page faults so far."""
        ended = len(self._to_settle)  # only these: page faults of loans that end from here on may not be in ``now``
        now = faults()
        for _ in range(ended):
            start, size, faults_then = self._to_settle.popleft()
            if now != faults_then and self._segment.is_written(start, size):
                page = start - start % PAGESIZE
                self._segment.restore(page, start + size - page)
        return now


class Copies:
    """The frame store of a process without an arena whose values may change while their frames wait: copies frames."""

    def keep(self, frames: list[Any]) -> list[Any]:
        """Return frames to send. The first of ``frames`` is a pickle; the others share the memory of a value."""
        return list(map(bytes, frames))

    def open(self, frames: Sequence[Any]) -> Sequence[Any]:
        """Return received frames as bytes-like objects that may be written to."""
        return frames


class AsTheyAre(Copies):
    """The frame store of a worker without the arena: no copies, as frames are sent before their value changes."""

    has_room = False
    """True if the latest task brought room to write frames to."""
    ended: Collection[int] = ()
    """Blocks that ``let_go`` would return; mostly empty, which saves the call."""

    def enter(self, room: Sequence[int]) -> None:
        """Begin a task. ``room``: start and size of the room to write frames to, or empty."""

    def let_go(self) -> list[int]:
        """Return the blocks that this process has released since the last call, each as often as it was opened."""
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
        """Store large frames in the arena, and copy small ones and those that the arena has no room for."""
        store = self._arena.store
        return [(store(frame) if len(frame) >= LARGE_BYTES else None) or bytes(frame) for frame in frames]

    def open(self, frames: Sequence[Any]) -> Sequence[Any]:
        self._holds.add(frames)
        return self._loans.open(frames)


class WorkerShelf:
    """The frame store of a worker that shares the arena."""

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
        """Replace large frames by references: to the input frame if passed on unchanged, else to a copy in the room."""
        return [self._kept(frame) for frame in frames]

    def _kept(self, frame: Any) -> Any:
        if len(frame) >= LARGE_BYTES:
            reference = self._loans.passed_on(frame) or self._placed(frame)
            if reference is not None:
                return reference
        if type(frame) is bytes or not self._loans.holds(frame):
            return frame
        return bytes(frame)  # a copy: the lent memory is released before the frame is sent

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
    """Return a worker's frame store, which shares the arena if ``descriptor`` is given, and close the descriptor.

    Raises: RecomposeError if this process cannot map the shared memory.
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
