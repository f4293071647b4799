"""Accounts of the arena: for each worker, the blocks that it may read, and the room for its writes during a task."""

import socket
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import chain

from runtime.arena.arena import Arena, open_arena
from runtime.arena.frame_store import Holds, RunnerShelf
from runtime.arena.reference import LARGE_BYTES, ArenaSettings, Block, Reference, in_pages
from runtime.transport.values import Carried, FrameCodec
from runtime.transport.wire import Kind, Message

_REMEMBERED = 8


class Habits:
    """Predicts the room that a task needs: the maximum that the latest tasks of the same stages wrote per item."""

    def __init__(self) -> None:
        self.written: dict[tuple[int, int], deque[int]] = {}
        """Written bytes per item of the latest tasks, by stages; stages that write only small frames are left out."""

    def note(self, answer: Message, written_bytes: int) -> None:
        stages = answer.first, answer.span
        if answer.kind != Kind.FAILED and (written_bytes or stages in self.written):
            per_item = -(-written_bytes // max(1, answer.items))
            self.written.setdefault(stages, deque(maxlen=_REMEMBERED)).append(per_item)

    def expected_bytes(self, task: Message) -> int:
        return task.items * max(self.written.get((task.first, task.span), ()), default=0)


class Accounts:
    """Makes the accounts of the workers on this host. Without an arena, workers have no accounts."""

    def __init__(self, arena: Arena | None) -> None:
        """``arena``: closed together with the accounts."""
        self.arena, self._habits = arena, Habits()
        self.codec = FrameCodec(None if arena is None else RunnerShelf(arena))
        """Encodes values as frames for all workers, including those on other hosts."""

    @classmethod
    def opened(cls, settings: ArenaSettings | None) -> "Accounts":
        """Create accounts, with an arena if ``settings`` ask for one and the system can provide it."""
        return cls(open_arena(settings) if settings is not None else None)

    def open(self) -> "Account | None":
        return None if self.arena is None else Account(self.arena, self._habits)

    @property
    def handed(self) -> Sequence[int]:
        """Descriptors to pass to a worker."""
        return () if self.arena is None else (self.arena.segment.descriptor,)

    def in_full(self, message: Message) -> Message:
        """Return the message with bytes in place of references; send it immediately, before the memory changes."""
        if Reference not in map(type, _frames(message)):
            return message
        payload, states = map(self._read, message.payload), message.states.items()
        return message._replace(payload=[*payload], states={k: [*map(self._read, v)] for k, v in states})

    def close(self) -> None:
        """May be called twice."""
        if self.arena is not None:
            self.arena.close()

    def _read(self, frame: Carried) -> Carried:
        if self.arena is None or not isinstance(frame, Reference):
            return frame
        return self.arena.segment.view(frame.start, frame.size)


class Account:
    """The account of one worker at the hub; all its messages pass through it in both directions."""

    def __init__(self, arena: Arena, habits: Habits) -> None:
        self._arena, self._habits, self._written = arena, habits, habits.written
        self._holds = Holds()
        self._rooms: dict[int, Block] = {}

    def going(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return messages to the worker, with room for the frames that it will write."""
        if not self._written:
            for message in messages:
                if message.states or Reference in map(type, message.payload):
                    break
            else:
                return messages
        return [self._booked(message) for message in messages]

    def _booked(self, message: Message) -> Message:
        if message.kind != Kind.TASK:
            return message
        self._holds.add(_frames(message))
        expected_bytes = self._habits.expected_bytes(message)
        room = self._arena.take(expected_bytes) if expected_bytes else None
        if room is None:
            return message
        self._rooms[message.task_id] = room
        return message._replace(blocks=(room.start, room.size))

    def came(self, message: Message) -> Message:
        """Return a message from the worker, with references that keep their blocks from being freed.

        Raises: OSError if the message refers to memory that the worker was not given.
        """
        payload = message.payload
        if (
            len(payload) == 1
            and len(payload[0]) < LARGE_BYTES
            and not (self._rooms or message.states or message.blocks)
        ):
            return message  # one small frame: the usual case in a light stream
        if message.kind == Kind.ALIVE:
            return message
        room = self._rooms.pop(message.task_id, None)
        large = [frame for frame in _frames(message) if len(frame) >= LARGE_BYTES]
        if large or room is not None:
            self._settle(message, room, large)
        for block in message.blocks:
            self._holds.drop(block)
        return message

    def close(self, worker: socket.socket) -> None:
        """Close the account of a removed worker, and its connection: later, if the worker may still write to memory."""
        self._holds.clear()
        if self._rooms:
            self._arena.leave_to(worker, list(self._rooms.values()))
        else:
            worker.close()
        self._rooms = {}

    def _settle(self, message: Message, room: Block | None, large: list[Carried]) -> None:
        references = [frame for frame in large if isinstance(frame, Reference)]
        try:
            fresh = room.cut(references) if room is not None else {}
        except ValueError as error:
            raise OSError(str(error)) from error
        new = [frame for frame in large if not isinstance(frame, Reference) or frame.block in fresh]
        self._habits.note(message, sum(in_pages(len(frame)) for frame in new))
        for reference in references:
            reference.keeper = self._keeper(reference, fresh)

    def _keeper(self, reference: Reference, fresh: dict[int, Block]) -> Block:
        block = fresh.get(reference.block) or self._holds.get(reference.block)
        stop = reference.start + reference.size
        if block is None or not block.start <= reference.start <= stop <= block.start + block.size:
            raise OSError(f"a worker refers to {reference}, which it was not given")
        return block


def _frames(message: Message) -> Iterable[Carried]:
    return chain(message.payload, *message.states.values()) if message.states else message.payload
