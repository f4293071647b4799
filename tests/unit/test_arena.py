"""The arena of a runner: what is taken, what comes back, who may still write, and where there is none."""

import gc
import os
import socket
from collections.abc import Iterator
from mmap import PAGESIZE
from pathlib import Path

import numpy as np
import pytest

from runtime.arena import arena as arena_module
from runtime.arena.arena import Arena, open_arena
from runtime.arena.reference import ArenaSettings, Block, Reference, Segment, in_pages, memory_bytes

FRAME = np.arange(100_000, dtype=np.uint8)


@pytest.fixture
def arena() -> Iterator[Arena]:
    arena = Arena(Segment.create(64 * PAGESIZE))
    yield arena
    arena.close()
    arena.close()


def test_a_frame_is_written_once_and_freed_when_nobody_refers_to_it(arena: Arena) -> None:
    reference = arena.store(FRAME)
    assert reference is not None
    assert (len(reference), arena.used_bytes) == (len(FRAME), in_pages(len(FRAME)))
    assert bytes(arena.segment.view(reference.start, reference.size)) == FRAME.tobytes()
    again = Reference(reference.block, reference.start, 10, reference.keeper)
    del reference
    assert arena.used_bytes > 0
    del again
    assert arena.used_bytes == 0


def test_frames_that_come_and_go_take_no_more_memory() -> None:
    arena = Arena(Segment.create(1 << 30))
    for _ in range(50):
        held = [arena.store(FRAME) for _ in range(10)]
    assert os.stat(arena.segment.descriptor).st_blocks * 512 <= 20 * in_pages(len(FRAME))
    del held
    arena.close()


def test_memory_above_what_is_used_goes_back_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arena_module, "_WARM_BYTES", 10 * PAGESIZE)
    arena = Arena(Segment.create(1 << 24))
    low, high = arena.store(FRAME[:70_000]), [arena.store(FRAME) for _ in range(20)]
    assert os.stat(arena.segment.descriptor).st_blocks * 512 > 20 * len(FRAME)
    high.clear()
    assert os.stat(arena.segment.descriptor).st_blocks * 512 == in_pages(70_000) + 10 * PAGESIZE
    assert low is not None
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


def test_room_of_a_worker_that_may_still_run_is_nobodys_until_its_connection_ends(arena: Arena) -> None:
    ours, its = socket.socketpair()
    room = arena.take(60 * PAGESIZE)
    assert room is not None
    arena.leave_to(ours, [room])
    del room
    assert its.recv(1) == b""  # it is told
    its.send(b"an answer that nobody waits for")
    assert arena.take(60 * PAGESIZE) is None
    its.close()
    assert arena.take(60 * PAGESIZE) is not None


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
    assert arena is not None
    assert arena.segment.size == memory_bytes() // 2
    arena.close()
