"""What a damaged write-ahead log does to a journal whose runner was killed."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from compositions.errors import RecomposeError
from service.runner.durable.journal import Journal
from service.runner.durable.log_check import FRAME_HEADER_BYTES, HEADER_BYTES, log_damage
from service.runner.durable.values import Pushed

FRAME_BYTES = FRAME_HEADER_BYTES + 4096
STORED = 30


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A journal as a runner leaves it that stored so many items one by one and was killed; nothing is in the file of
    the database itself yet."""
    living = tmp_path / "living"
    journal = Journal(living / "run.journal", "r", 1)
    for serial in range(STORED):
        journal.store(None, [Pushed(serial, (f"item {serial}",))])
    left = tmp_path / "left"
    shutil.copytree(living, left, ignore=shutil.ignore_patterns("*-shm"))
    journal.close()
    return left / "run.journal"


def log_of(journal: Path) -> Path:
    return journal.with_name(f"{journal.name}-wal")


def frames_of(journal: Path) -> int:
    return (log_of(journal).stat().st_size - HEADER_BYTES) // FRAME_BYTES


def flip(log: Path, at: int) -> bytes:
    content = bytearray(log.read_bytes())
    content[at] ^= 0b100
    log.write_bytes(content)
    return bytes(content)


def frame(number: int, behind: int) -> int:
    return HEADER_BYTES + number * FRAME_BYTES + behind


@pytest.mark.parametrize(
    "place",
    [frame(9, FRAME_HEADER_BYTES + 4000), frame(9, 18), frame(9, 9), frame(0, FRAME_HEADER_BYTES), 26],
    ids=["page", "sum", "salt", "first page", "sum of the header"],
)
def test_what_is_behind_a_flipped_bit_is_not_given_up_without_a_word(killed: Path, place: int) -> None:
    content, before = flip(log_of(killed), place), killed.read_bytes()
    with pytest.raises(RecomposeError, match=r"is damaged \(\d+ transactions of its log are behind a page that is not"):
        Journal(killed, "r", 2)
    assert (log_of(killed).read_bytes(), killed.read_bytes()) == (content, before), "nothing was changed"


@pytest.mark.parametrize(("missing", "lost"), [(0, 0), (1, 1), (FRAME_BYTES // 2, 1), (FRAME_BYTES + 1, 2)])
def test_a_transaction_that_was_cut_short_never_was(killed: Path, missing: int, lost: int) -> None:
    log = log_of(killed)
    assert frames_of(killed) > STORED
    log.write_bytes(log.read_bytes()[: log.stat().st_size - missing])
    assert log_damage(killed, synced=True) is None
    assert Journal(killed, "r", 2).found.undelivered == [f"item {serial}" for serial in range(STORED - lost)]


def test_a_last_transaction_that_the_disk_did_not_take_in_its_order_never_was(killed: Path) -> None:
    """Without power a later page may be there and an earlier one not; nobody was told that it is stored."""
    flip(log_of(killed), frame(frames_of(killed) - 1, FRAME_HEADER_BYTES))
    assert log_damage(killed, synced=True) is None
    assert len(Journal(killed, "r", 2).found.undelivered) == STORED - 1


@pytest.mark.parametrize("sizes", [(40_000, 24_000, 8_000), (24_000, 20_000, 16_000), (8_000, 24_000, 16_000)])
def test_what_was_given_up_is_not_missed(killed: Path, tmp_path: Path, sizes: tuple[int, ...]) -> None:
    """Each was written, its fsync failed, and the next one was written over it; the last one was stored."""
    written = b""
    for number, size in enumerate(sizes):
        shutil.copytree(killed.parent, again := tmp_path / str(number))
        with closing(sqlite3.connect(again / killed.name, isolation_level=None)) as db:
            db.execute("INSERT INTO pushed VALUES (?, 1, ?)", (STORED, bytes([number]) * size))
            log = log_of(again / killed.name).read_bytes()
        written = log + written[len(log) :]
    log_of(killed).write_bytes(written)
    assert log_damage(killed, synced=True) is None
    flip(log_of(killed), frame(9, 18))
    assert log_damage(killed, synced=True) is not None, "what was stored is missed all the same"


def test_without_waiting_for_the_disk_a_log_may_have_holes(killed: Path) -> None:
    """``journal_sync`` false promises a journal that is whole, and lacks the last moments, after the power was lost."""
    flip(log_of(killed), frame(20, FRAME_HEADER_BYTES))
    assert 0 < len(Journal(killed, "r", 2, sync=False).found.undelivered) < STORED
