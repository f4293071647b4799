"""The arena of a runner: what is taken, what comes back, what a process gets of it, and a worker's account of it."""

import gc
import os
import threading
from collections.abc import Iterator
from mmap import PAGESIZE
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.arena import arena as arena_module
from runtime.arena import frame_store
from runtime.arena.arena import Arena, open_arena
from runtime.arena.frame_store import Loans, RunnerShelf, WorkerShelf
from runtime.arena.reference import LARGE_BYTES, ArenaSettings, Block, Reference, Segment, in_pages, memory_bytes
from runtime.transport.account import Account, Accounts
from runtime.transport.values import FrameCodec
from runtime.transport.wire import Kind, Message
from tests.support.wire import through

SIZE = 300_000
FRAME = np.arange(100_000, dtype=np.uint8)


@pytest.fixture
def arena() -> Iterator[Arena]:
    arena = Arena(Segment.create(1 << 24))
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
    with pytest.raises(ValueError, match="overlap another block or exceed theirs"):
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


@pytest.fixture
def shelf(arena: Arena) -> Iterator[WorkerShelf]:
    segment = Segment(os.dup(arena.segment.descriptor))
    yield WorkerShelf(segment)
    segment.forget_descriptor()


@pytest.fixture
def account(arena: Arena) -> Account:
    return Accounts(arena).open()


@pytest.fixture
def codec(arena: Arena) -> FrameCodec:
    return FrameCodec(RunnerShelf(arena))


def frame(number: int = 3) -> np.ndarray:
    return np.full(SIZE, number, np.uint8)


def references(payload: Any) -> list[Reference]:
    return [each for each in payload if isinstance(each, Reference)]


def test_room_that_is_not_used_is_asked_for_no_more(
    arena: Arena, account: Account, shelf: WorkerShelf, codec: FrameCodec
) -> None:
    payload, of_worker = codec.encode([frame()]), FrameCodec(shelf)
    for number in range(11):
        task = through(account.going([Message(Kind.TASK, number, 0, 1, payload)])[0])
        shelf.enter(task.blocks)
        (value,) = of_worker.decode(task.payload)
        frames = of_worker.encode([value + 1 if number < 3 else None])
        del value
        account.came(through(Message(Kind.DONE, number, 0, 1, frames, blocks=shelf.let_go())))
        assert number < 3 or arena.used_bytes == in_pages(SIZE)
    assert account.going([Message(Kind.TASK, 99, 0, 1, payload)])[0].blocks == ()


def test_states_travel_by_reference_as_well(arena: Arena, account: Account, codec: FrameCodec) -> None:
    state = codec.encode([frame()])
    (going,) = account.going([Message(Kind.TASK, 1, 0, 1, codec.encode([1]), {0: state})])
    out = through(going)
    assert references(out.states[0]) == references(state)
    back = account.came(out._replace(kind=Kind.DONE, blocks=[references(state)[0].block]))
    del state, going, out
    np.testing.assert_array_equal(codec.decode(back.states[0])[0], frame())
    del back
    assert arena.used_bytes == 0


def test_a_worker_that_refers_to_what_it_was_not_given_is_refused(account: Account, codec: FrameCodec) -> None:
    payload = codec.encode([frame()])
    account.going([Message(Kind.TASK, 1, payload=payload)])
    (given,) = references(payload)
    beyond = Reference(given.block, given.start, 2 * SIZE)
    for reference in (beyond, Reference(1 << 22, 1 << 22, SIZE), Reference(1 << 22, 1 << 22, 70_000)):
        with pytest.raises(OSError, match="which it was not given"):
            account.came(Message(Kind.DONE, 1, payload=[reference]))


def test_a_worker_elsewhere_gets_the_bytes(arena: Arena, codec: FrameCodec) -> None:
    payload = codec.encode([frame(), "small"])
    message = Message(Kind.TASK, 1, payload=payload, states={2: codec.encode([frame(5)])})
    full = Accounts(arena).in_full(message)
    assert references(full.payload) == []
    plain = FrameCodec()
    np.testing.assert_array_equal(plain.decode(through(full).payload)[0], frame())
    np.testing.assert_array_equal(plain.decode(through(full).states[2])[0], frame(5))


# --- what a process gets of it: arrays of its own to write on and keep, that spoil nothing for others -----------------


class Side:
    """A worker's side of the arena, in this process: maps of its own, as a process of its own would have."""

    def __init__(self, arena: Arena) -> None:
        self.segment = Segment(os.dup(arena.segment.descriptor))
        self.let_go: list[int] = []
        self.loans = Loans(self.segment, self.let_go.append)

    def open(self, reference: Reference) -> Any:
        (frame,) = self.loans.open([reference])
        return np.frombuffer(frame, np.uint8)

    def close(self) -> None:
        self.segment.forget_descriptor()


@pytest.fixture
def side(arena: Arena) -> Iterator[Side]:
    side = Side(arena)
    yield side
    side.close()


def stored(arena: Arena, number: int) -> Reference:
    return arena.store(frame(number))


def test_a_loan_lasts_until_the_last_view_of_it_is_gone(arena: Arena, side: Side) -> None:
    reference = stored(arena, 3)
    array = side.open(reference)
    views = [array[10:20], memoryview(array)[5:6], array.reshape(3, -1)[1:]]
    del array
    while views:
        assert side.let_go == []
        views.pop()
    assert side.let_go == [reference.block]


def test_an_unchanged_frame_and_a_view_of_it_are_passed_on_by_reference(arena: Arena, side: Side) -> None:
    reference = stored(arena, 3)
    array = side.open(reference)
    assert side.loans.passed_on(memoryview(array)) == reference
    part = side.loans.passed_on(memoryview(array[1000:90_000]))
    assert part == Reference(reference.block, reference.start + 1000, 89_000)
    assert (side.open(Reference(0, 0, 1)) == 3).all()


@pytest.mark.parametrize("at", [0, 150_000, SIZE - 1, "another thread"])
def test_a_frame_that_was_written_on_anywhere_is_not_passed_on(arena: Arena, side: Side, at: Any) -> None:
    reference = stored(arena, 3)
    for _ in range(20):  # in the end this one page is all that faults
        array = side.open(reference)
        if at == "another thread":
            thread = threading.Thread(target=array.fill, args=(7,))
            thread.start()
            thread.join()
        else:
            array[at] = 3  # the same value: it is still written
        assert side.loans.passed_on(memoryview(array)) is None
        del array


def test_what_another_thread_writes_is_forgotten(arena: Arena, side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = 0

    def counted() -> int:
        nonlocal faults
        before = faults
        while held:
            held.pop().fill(9)
            faults += 1
        return before

    held: list[Any] = []
    monkeypatch.setattr(frame_store, "faults", counted)
    reference, another = stored(arena, 3), stored(arena, 5)
    held.append(side.open(reference))
    side.open(another)
    assert side.let_go[0] == reference.block
    assert (side.open(reference) == 3).all()


def test_memory_that_is_not_on_loan_is_not_passed_on(arena: Arena, side: Side) -> None:
    own = memoryview(bytearray(SIZE))
    assert side.loans.passed_on(own) is None
    kept = side.open(stored(arena, 3))
    assert side.loans.passed_on(own) is None
    assert not side.loans.holds(own)
    assert side.loans.holds(memoryview(kept[5:6]))
    assert not side.loans.holds(b"")


def test_new_frames_go_to_the_room_and_beyond_it_as_they_are(arena: Arena, shelf: WorkerShelf) -> None:
    room = arena.take(2 * SIZE + 8192)
    shelf.enter((room.start, room.size))
    frames = [b"small", *(bytes([number]) * SIZE for number in (1, 2, 3))]
    small, first, second, third = shelf.keep(frames)
    assert (small, third) == (frames[0], frames[3])
    blocks = room.cut([first, second])
    assert [bytes(arena.segment.view(each.start, each.size)) for each in (first, second)] == frames[1:3]
    assert set(blocks) == {first.block, second.block}


def test_without_room_a_changed_frame_is_copied_so_that_it_can_be_let_go(arena: Arena, shelf: WorkerShelf) -> None:
    reference = stored(arena, 3)
    shelf.enter(())
    (frame,) = shelf.open([reference])
    frame[0] = 9
    (kept,) = shelf.keep([frame])
    del frame
    assert kept[:2] == b"\x09\x03"
    assert shelf.let_go() == [reference.block]
    assert shelf.let_go() == []


def test_a_small_part_of_a_frame_does_not_keep_it(arena: Arena, shelf: WorkerShelf) -> None:
    reference = stored(arena, 3)
    (frame,) = shelf.open([reference])
    (part,) = shelf.keep([frame[: LARGE_BYTES - 1]])
    del frame
    assert part == b"\3" * (LARGE_BYTES - 1)
    assert shelf.let_go() == [reference.block]


def test_values_of_the_runner_go_to_the_arena_and_come_back_writable(arena: Arena, codec: FrameCodec) -> None:
    value = {"name": "a", "large": np.arange(SIZE, dtype=np.uint8), "small": np.arange(9), "text": "x" * SIZE}
    payload = codec.encode([value])
    assert codec.size_bytes(payload) > 2 * SIZE
    value["large"][:] = 0  # a source uses its buffer again
    (decoded,) = codec.decode(payload)
    np.testing.assert_array_equal(decoded["large"], np.arange(SIZE, dtype=np.uint8))
    np.testing.assert_array_equal(decoded["small"], np.arange(9))
    assert decoded["text"] == value["text"]
    decoded["large"][:] = 1
    assert codec.decode(payload)[0]["large"][7] == 7
    del payload
    assert arena.used_bytes > 0  # the array is in use
    del decoded
    assert arena.used_bytes == 0


def test_without_room_the_runner_copies(arena: Arena, codec: FrameCodec) -> None:
    kept = arena.take(1 << 24)
    value = np.arange(SIZE, dtype=np.uint8)
    payload = codec.encode([value])
    assert arena.used_bytes == 1 << 24
    value[:] = 0
    np.testing.assert_array_equal(codec.decode(payload)[0], np.arange(SIZE, dtype=np.uint8))
    assert kept is not None
