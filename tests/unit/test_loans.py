"""Check what a process gets of the arena: arrays of its own to write on and keep, that spoil nothing for others."""

import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from runtime.arena import frame_store
from runtime.arena.arena import Arena
from runtime.arena.frame_store import Loans, RunnerShelf, WorkerShelf
from runtime.arena.reference import LARGE_BYTES, Reference, Segment
from runtime.transport.values import FrameCodec

SIZE = 300_000


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
def arena() -> Iterator[Arena]:
    arena = Arena(Segment.create(1 << 24))
    yield arena
    arena.close()


@pytest.fixture
def side(arena: Arena) -> Iterator[Side]:
    side = Side(arena)
    yield side
    side.close()


def stored(arena: Arena, number: int, size: int = SIZE) -> Reference:
    return arena.store(np.full(size, number, np.uint8))


def test_what_a_stage_writes_is_seen_by_nobody_else_nor_by_the_next_to_open_it(arena: Arena, side: Side) -> None:
    other, reference = Side(arena), stored(arena, 3)
    array = side.open(reference)
    assert (array.flags.writeable, array.flags.aligned, (array == 3).all()) == (True, True, True)
    array[:] = 9
    assert (other.open(reference) == 3).all()
    assert bytes(arena.segment.view(reference.start, 5)) == b"\3" * 5
    del array
    assert side.let_go == [reference.block]
    assert (side.open(reference) == 3).all()
    other.close()


def test_a_retry_beside_a_kept_and_changed_frame_gets_a_copy_of_its_own(arena: Arena, side: Side) -> None:
    reference = stored(arena, 3)
    kept = side.open(reference)
    kept[0] = 9
    again = side.open(reference)
    assert (again == 3).all()
    again[1] = 8
    assert (kept[0], kept[1]) == (9, 3)
    assert side.let_go == [reference.block]  # that of the copy


def test_a_loan_lasts_until_the_last_view_of_it_is_gone(arena: Arena, side: Side) -> None:
    reference = stored(arena, 3)
    array = side.open(reference)
    views = [array[10:20], memoryview(array)[5:6], array.reshape(3, -1)[1:]]
    del array
    while views:
        assert side.let_go == []
        views.pop()
    assert side.let_go == [reference.block]


def test_a_block_that_is_used_again_shows_its_new_frame(arena: Arena, side: Side) -> None:
    for number in range(1, 6):
        reference = stored(arena, number)
        assert reference.block == 0  # the same memory each time
        array = side.open(reference)
        assert (array == number).all()
        array[number * 1000 :: 7919] = 99
        del array, reference


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


# --- a worker's shelf -------------------------------------------------------------------------------------------------


@pytest.fixture
def shelf(arena: Arena) -> Iterator[WorkerShelf]:
    segment = Segment(os.dup(arena.segment.descriptor))
    yield WorkerShelf(segment)
    segment.forget_descriptor()


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


def test_values_of_the_runner_go_to_the_arena_and_come_back_writable(arena: Arena) -> None:
    codec = FrameCodec(RunnerShelf(arena))
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


def test_without_room_the_runner_copies(arena: Arena) -> None:
    codec = FrameCodec(RunnerShelf(arena))
    kept = arena.take(1 << 24)
    value = np.arange(SIZE, dtype=np.uint8)
    payload = codec.encode([value])
    assert arena.used_bytes == 1 << 24
    value[:] = 0
    np.testing.assert_array_equal(codec.decode(payload)[0], np.arange(SIZE, dtype=np.uint8))
    assert kept is not None
