"""The arena of a runner: what is taken, what comes back, who may still write, and where there is none; and a worker's
account of it: blocks that it reads, room that it writes, and what a reply may refer to."""

import gc
import os
from collections.abc import Iterator
from mmap import PAGESIZE
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.arena import arena as arena_module
from runtime.arena.arena import Arena, open_arena
from runtime.arena.frame_store import RunnerShelf, WorkerShelf
from runtime.arena.reference import ArenaSettings, Block, Reference, Segment, in_pages, memory_bytes
from runtime.transport.account import Account, Accounts
from runtime.transport.values import FrameCodec
from runtime.transport.wire import Kind, Message
from tests.support.wire import through

SIZE = 1 << 23
FRAME = np.arange(100_000, dtype=np.uint8)


@pytest.fixture
def arena() -> Iterator[Arena]:
    arena = Arena(Segment.create(SIZE))
    yield arena
    arena.close()
    arena.close()


def test_a_frame_is_written_once_and_freed_when_nobody_refers_to_it(arena: Arena) -> None:
    reference = arena.store(FRAME)
    assert (len(reference), arena.used_bytes) == (len(FRAME), in_pages(len(FRAME)))
    assert bytes(arena.segment.view(reference.start, reference.size)) == FRAME.tobytes()
    again = Reference(reference.block, reference.start, 10, reference.keeper)
    del reference
    assert arena.used_bytes > 0
    del again
    assert arena.used_bytes == 0


def test_memory_above_what_is_used_goes_back_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arena_module, "_WARM_BYTES", 10 * PAGESIZE)
    arena = Arena(Segment.create(1 << 24))
    low, high = arena.store(FRAME[:70_000]), [arena.store(FRAME) for _ in range(20)]
    assert os.stat(arena.segment.descriptor).st_blocks * 512 > 20 * len(FRAME)
    high.clear()
    assert os.stat(arena.segment.descriptor).st_blocks * 512 == in_pages(70_000) + 10 * PAGESIZE
    assert bytes(arena.segment.view(low.start, low.size)) == FRAME[:70_000].tobytes()
    arena.close()


def test_an_arena_leaves_no_name_anywhere_and_no_descriptor() -> None:
    gc.collect()
    descriptors = len(os.listdir("/proc/self/fd"))
    arena = Arena(Segment.create(1 << 24))
    assert arena.store(FRAME) is not None
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if "recompose-arena" in line]
    assert len(mapped) == 2
    assert all(line.endswith("(deleted)") for line in mapped)  # as the kernel says of what has no name
    arena.close()
    del arena
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == descriptors


@pytest.mark.parametrize("start", [0, PAGESIZE])
def test_what_reaches_beyond_the_room_is_refused(start: int) -> None:
    room = Block(0, 2 * PAGESIZE, lambda start, size: None)
    with pytest.raises(ValueError, match="not within a block of their own"):
        room.cut([Reference(start, start, 3 * PAGESIZE)])


def test_there_is_no_arena_where_none_is_wanted_or_the_system_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_arena(ArenaSettings(shared_memory=0.0)) is None
    monkeypatch.delattr(os, "memfd_create")
    assert open_arena(ArenaSettings()) is None


def test_the_share_is_of_what_the_machine_or_the_container_has(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = memory_bytes()
    (tmp_path / "max").write_text("max\n")
    (tmp_path / "less").write_text("1073741824\n")
    monkeypatch.setattr("runtime.arena.reference._LIMITS", (tmp_path / "max", tmp_path / "none", tmp_path / "less"))
    assert memory_bytes() == min(whole, 1 << 30)
    arena = open_arena(ArenaSettings(shared_memory=0.5))
    assert arena.segment.size == memory_bytes() // 2
    arena.close()


# --- a worker's account -----------------------------------------------------------------------------------------------


FRAME_BYTES = 300_000


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
        return account.came(through(self._answer(through(going), stage)))

    def _answer(self, task: Message, stage: Any) -> Message:
        self.shelf.enter(task.blocks)
        frames = self._codec.encode(stage(self._codec.decode(task.payload)))
        return Message(Kind.DONE, task.task_id, 0, 1, frames, blocks=self.shelf.let_go())

    def close(self) -> None:
        self._segment.forget_descriptor()


@pytest.fixture
def worker(arena: Arena) -> Iterator[Worker]:
    worker = Worker(arena)
    yield worker
    worker.close()


@pytest.fixture
def account(arena: Arena) -> Account:
    return Accounts(arena).open()


@pytest.fixture
def codec(arena: Arena) -> One:
    return One(RunnerShelf(arena))


def frame(number: int = 3) -> np.ndarray:
    return np.full(FRAME_BYTES, number, np.uint8)


def references(payload: Any) -> list[Reference]:
    return [each for each in payload if isinstance(each, Reference)]


def test_room_that_is_not_used_is_asked_for_no_more(arena: Arena, account: Account, worker: Worker, codec: One) -> None:
    payload = codec.encode(frame())
    for _ in range(3):
        worker.does(account, payload, lambda value: value + 1)
    for _ in range(8):
        worker.does(account, payload, lambda value: None)
        assert arena.used_bytes == in_pages(FRAME_BYTES)
    assert account.going([Message(Kind.TASK, 99, 0, 1, payload)])[0].blocks == ()


def test_states_travel_by_reference_as_well(arena: Arena, account: Account, codec: One) -> None:
    state = codec.encode(frame())
    (going,) = account.going([Message(Kind.TASK, 1, 0, 1, codec.encode(1), {0: state})])
    out = through(going)
    assert references(out.states[0]) == references(state)
    back = account.came(out._replace(kind=Kind.DONE, blocks=[references(state)[0].block]))
    del state, going, out
    np.testing.assert_array_equal(codec.decode(back.states[0]), frame())
    del back
    assert arena.used_bytes == 0


def test_a_worker_that_refers_to_what_it_was_not_given_is_refused(account: Account, codec: One) -> None:
    payload = codec.encode(frame())
    account.going([Message(Kind.TASK, 1, payload=payload)])
    (given,) = references(payload)
    beyond = Reference(given.block, given.start, 2 * FRAME_BYTES)
    for reference in (beyond, Reference(1 << 22, 1 << 22, FRAME_BYTES), Reference(1 << 22, 1 << 22, 70_000)):
        with pytest.raises(OSError, match="which it was not given"):
            account.came(Message(Kind.DONE, 1, payload=[reference]))


def test_a_worker_elsewhere_gets_the_bytes(arena: Arena, codec: One) -> None:
    payload = codec.encode([frame(), "small"])
    message = Message(Kind.TASK, 1, payload=payload, states={2: codec.encode(frame(5))})
    full = Accounts(arena).in_full(message)
    assert references(full.payload) == []
    plain = One()
    np.testing.assert_array_equal(plain.decode(through(full).payload)[0], frame())
    np.testing.assert_array_equal(plain.decode(through(full).states[2]), frame(5))
