"""Where large frames are put when values become frames, and got from when frames become values."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Any, Protocol

from compositions.errors import RecomposeError
from runtime.arena.arena import Arena
from runtime.arena.holds import Holds
from runtime.arena.loans import Loans
from runtime.arena.reference import LARGE_BYTES, Reference, in_pages
from runtime.arena.segment import Segment


class Shelf(Protocol):
    def keep(self, frames: list[Any]) -> list[Any]:
        """Frames that can be carried, for frames of which all but the first, a pickle, share the memory of a value."""

    def open(self, frames: Sequence[Any]) -> Sequence[Any]:
        """Bytes-like frames, for what was carried; whoever gets them may write on them."""


class TaskShelf(Shelf, Protocol):
    """Of a worker: tasks bring room for new frames, answers tell which blocks were let go."""

    has_room: bool
    """The latest task brought room."""

    @property
    def ended(self) -> Collection[int]:
        """What ``let_go`` has to tell: mostly nothing, and then it need not be asked."""

    def enter(self, room: Sequence[int]) -> None:
        """A task begins, with room to write to: start and size, or nothing."""

    def let_go(self) -> list[int]:
        """Blocks that nothing in this process refers to any more, each as often as it was opened; since the last
        call."""
        ...


class Copies:
    """For who has no arena and whose values may change while their frames wait."""

    def keep(self, frames: list[Any]) -> list[Any]:
        return list(map(bytes, frames))

    def open(self, frames: Sequence[Any]) -> Sequence[Any]:
        return frames


class AsTheyAre:
    """For who has no arena and sends frames before their value changes."""

    has_room = False
    ended: Collection[int] = ()

    def enter(self, room: Sequence[int]) -> None:
        pass

    def let_go(self) -> list[int]:
        return []

    def keep(self, frames: list[Any]) -> list[Any]:
        return frames

    def open(self, frames: Sequence[Any]) -> Sequence[Any]:
        return frames


class RunnerShelf:
    """Of the process that owns the arena."""

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
        """What is large by reference: to where it came, if it is passed on unchanged; else to the room, as it goes."""
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
        raise RecomposeError(
            f"a worker cannot map the memory that it shares with the runner: {error}; {cure}"
        ) from error
    segment.forget_descriptor()
    return WorkerShelf(segment)
