"""A worker's account of the arena: blocks that it reads, room that it writes, and what a reply may refer to."""

import os
import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from runtime.arena.arena import Arena
from runtime.arena.frame_store import RunnerShelf, WorkerShelf
from runtime.arena.reference import Reference, Segment, in_pages
from runtime.transport.account import Account, Accounts
from runtime.transport.values import FrameCodec
from runtime.transport.wire import HEAD, Kind, Message, pack, unpack

SIZE = 300_000


def over_the_wire(message: Message) -> Message:
    data = bytearray().join(pack(message)[0])
    return unpack(HEAD.unpack_from(data), memoryview(data)[HEAD.size :])


class One(FrameCodec):
    """A codec of single values."""

    def encode(self, value: Any) -> Any:
        return super().encode([value])

    def decode(self, payload: Any) -> Any:
        return super().decode(payload)[0]


class Worker:
    """The worker's end in this process, with maps of its own."""

    def __init__(self, arena: Arena) -> None:
        self._segment = Segment(os.dup(arena.segment.descriptor))
        self.shelf = WorkerShelf(self._segment)
        self._codec = One(self.shelf)
        self._number = 0

    def does(self, account: Account, payload: Any, stage: Any = lambda value: value) -> Message:
        """What the account makes of the worker's answer."""
        self._number += 1
        (going,) = account.going([Message(Kind.TASK, self._number, 0, 1, payload)])
        return account.came(over_the_wire(self._answer(over_the_wire(going), stage)))

    def _answer(self, task: Message, stage: Any) -> Message:
        self.shelf.enter(task.blocks)
        frames = self._codec.encode(stage(self._codec.decode(task.payload)))
        return Message(Kind.DONE, task.task_id, 0, 1, frames, blocks=self.shelf.let_go())

    def close(self) -> None:
        self._segment.forget_descriptor()


@pytest.fixture
def arena() -> Iterator[Arena]:
    arena = Arena(Segment.create(1 << 23))
    yield arena
    arena.close()


@pytest.fixture
def worker(arena: Arena) -> Iterator[Worker]:
    worker = Worker(arena)
    yield worker
    worker.close()


@pytest.fixture
def account(arena: Arena) -> Account:
    account = Accounts(arena).open()
    assert account is not None
    return account


@pytest.fixture
def codec(arena: Arena) -> One:
    return One(RunnerShelf(arena))


def frame(number: int = 3) -> np.ndarray:
    return np.full(SIZE, number, np.uint8)


def references(payload: Any) -> list[Reference]:
    return [each for each in payload if isinstance(each, Reference)]


def test_a_frame_that_is_passed_through_stays_where_it_is(
    arena: Arena, account: Account, worker: Worker, codec: One
) -> None:
    payload = codec.encode([frame(), "text"])
    for _ in range(5):
        payload = worker.does(account, payload).payload
        assert arena.used_bytes == in_pages(SIZE)
    np.testing.assert_array_equal(codec.decode(payload)[0], frame())
    del payload
    assert arena.used_bytes == 0


def test_a_new_frame_is_copied_the_first_time_and_has_room_from_then_on(
    arena: Arena, account: Account, worker: Worker, codec: One
) -> None:
    payload = codec.encode(frame())
    first = worker.does(account, payload, lambda value: value + 1)
    assert references(first.payload) == []
    second = worker.does(account, payload, lambda value: value + 2)
    assert len(references(second.payload)) == 1
    np.testing.assert_array_equal(codec.decode(first.payload), frame(4))
    np.testing.assert_array_equal(codec.decode(second.payload), frame(5))
    del first, second, payload
    assert arena.used_bytes == 0


def test_room_that_is_not_used_comes_back_and_is_asked_for_no_more(
    arena: Arena, account: Account, worker: Worker, codec: One
) -> None:
    payload = codec.encode(frame())
    for _ in range(3):
        worker.does(account, payload, lambda value: value + 1)
    for _ in range(8):
        worker.does(account, payload, lambda value: None)
        assert arena.used_bytes == in_pages(SIZE)
    assert account.going([Message(Kind.TASK, 99, 0, 1, payload)])[0].blocks == ()


def test_states_travel_by_reference_as_well(arena: Arena, account: Account, codec: One) -> None:
    state = codec.encode(frame())
    (going,) = account.going([Message(Kind.TASK, 1, 0, 1, codec.encode(1), {0: state})])
    out = over_the_wire(going)
    assert references(out.states[0]) == references(state)
    back = account.came(out._replace(kind=Kind.DONE, blocks=[references(state)[0].block]))
    del state, going, out
    np.testing.assert_array_equal(codec.decode(back.states[0]), frame())
    del back
    assert arena.used_bytes == 0


def test_a_lost_worker_frees_what_it_read_and_its_room_when_it_has_ended(
    arena: Arena, account: Account, worker: Worker, codec: One
) -> None:
    payload = codec.encode(frame())
    worker.does(account, payload, lambda value: value + 1)
    (going,) = account.going([Message(Kind.TASK, 9, 0, 1, payload)])
    assert len(going.blocks) == 2
    del payload, going
    assert arena.used_bytes == 2 * in_pages(SIZE)
    ours, its = socket.socketpair()
    account.close(ours)
    assert arena.used_bytes == in_pages(SIZE)
    its.close()
    held = arena.take(1)
    assert arena.used_bytes == in_pages(1)
    assert held is not None


def test_a_worker_that_refers_to_what_it_was_not_given_is_refused(account: Account, codec: One) -> None:
    payload = codec.encode(frame())
    account.going([Message(Kind.TASK, 1, payload=payload)])
    (given,) = references(payload)
    beyond = Reference(given.block, given.start, 2 * SIZE)
    for reference in (beyond, Reference(1 << 22, 1 << 22, SIZE), Reference(1 << 22, 1 << 22, 70_000)):
        with pytest.raises(OSError, match="which it was not given"):
            account.came(Message(Kind.DONE, 1, payload=[reference]))


def test_a_worker_elsewhere_gets_the_bytes(arena: Arena, codec: One) -> None:
    payload = codec.encode([frame(), "small"])
    message = Message(Kind.TASK, 1, payload=payload, states={2: codec.encode(frame(5))})
    full = Accounts(arena).in_full(message)
    assert references(full.payload) == []
    plain = One()
    np.testing.assert_array_equal(plain.decode(over_the_wire(full).payload)[0], frame())
    np.testing.assert_array_equal(plain.decode(over_the_wire(full).states[2]), frame(5))
