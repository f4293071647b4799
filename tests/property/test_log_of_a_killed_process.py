"""Bits that flip in the write-ahead log of a journal whose process was killed (SIGKILL), or in the log's index."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compositions.errors import RecomposeError
from service.runner.durable.journal import Journal
from service.runner.durable.log_check import FRAME_HEADER_BYTES, HEADER_BYTES, log_damage, log_index
from service.runner.durable.values import Pushed
from tests.support.examples import examples

STORED = 20
FRAME_BYTES = FRAME_HEADER_BYTES + 4096
NAME = "run.journal"
Killed = tuple[Path, bool]
PROCESS = """
import sys, time
from pathlib import Path
from service.runner.durable.journal import Journal
from service.runner.durable.values import Pushed

folder, sync, begun_anew, stored = Path(sys.argv[1]), sys.argv[2] == "True", sys.argv[3] == "True", int(sys.argv[4])
journal = Journal(folder / "run.journal", "r", 1, sync=sync)
for serial in range(stored):
    if begun_anew and serial == stored // 2:
        assert journal._file.db.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()[0] == 0
    journal.store(None, [Pushed(serial, (f"item {serial}",))])
print("stored", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module", params=[(True, False), (False, False), (True, True)], ids=["sync", "none", "anew"])
def killed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Killed:
    """What a process left that stored so many items one by one and was killed; and whether it waited for the disk."""
    sync, begun_anew = request.param
    folder = tmp_path_factory.mktemp("killed")
    call = [sys.executable, "-c", PROCESS, str(folder), str(sync), str(begun_anew), str(STORED)]
    with subprocess.Popen(call, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"stored\n"
        process.kill()
    return folder, sync


@contextmanager
def copy_of(folder: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as elsewhere:
        yield Path(shutil.copytree(folder, Path(elsewhere) / "copy")) / NAME


def flip(file: Path, bit: int) -> None:
    content = bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)


def beside(journal: Path, suffix: str) -> Path:
    return journal.with_name(NAME + suffix)


def stored_bytes(folder: Path) -> int:
    """Of the log. Behind them is what an earlier log left, if that was begun anew."""
    content = (folder / f"{NAME}-wal").read_bytes()
    salts = content[16:24]
    starts = range(HEADER_BYTES, len(content), FRAME_BYTES)
    return HEADER_BYTES + FRAME_BYTES * sum(content[at + 8 : at + 16] == salts for at in starts)


def opened(journal: Path, sync: bool) -> list[object]:
    again = Journal(journal, "r", 2, sync=sync)
    again.close()
    return again.found.undelivered


def all_of_it() -> list[object]:
    return [f"item {serial}" for serial in range(STORED)]


@examples(30)
@given(data=st.data())
def test_a_flipped_bit_in_what_was_stored_is_told(killed: Killed, data: st.DataObject) -> None:
    folder, sync = killed
    bit = data.draw(st.integers(0, 8 * stored_bytes(folder) - 1))
    with copy_of(folder) as journal:
        flip(beside(journal, "-wal"), bit)
        before = {each.name: each.read_bytes() for each in journal.parent.iterdir()}
        for _ in range(2):  # the second look finds what the first one found
            with pytest.raises(RecomposeError, match=r"damaged \(only the first \d+ of \d+ pages"):
                Journal(journal, "r", 2, sync=sync)
        assert {each.name: each.read_bytes() for each in journal.parent.iterdir()} == before, "nothing was changed"


@examples(30)
@given(data=st.data())
def test_a_flipped_bit_in_the_index_refuses_no_journal_that_is_whole(killed: Killed, data: st.DataObject) -> None:
    folder, sync = killed
    head, index = st.integers(0, 8 * 136 - 1), st.integers(0, 8 * (folder / f"{NAME}-shm").stat().st_size - 1)
    with copy_of(folder) as journal:
        flip(beside(journal, "-shm"), data.draw(head | index))
        assert opened(journal, sync) == all_of_it()


def test_a_last_transaction_that_was_stored_is_missed_however_much_of_it_is_gone(killed: Killed) -> None:
    folder, sync = killed
    for left in (stored_bytes(folder) - 1, stored_bytes(folder) - FRAME_BYTES, HEADER_BYTES, 5, 0):
        with copy_of(folder) as journal:
            os.truncate(beside(journal, "-wal"), left)
            with pytest.raises(RecomposeError, match=r"only the first \d+ of \d+ pages that were stored"):
                Journal(journal, "r", 2, sync=sync)


@pytest.mark.parametrize("index", [b"", b"short", None])
def test_an_index_that_says_nothing_refuses_nothing(killed: Killed, index: bytes | None) -> None:
    folder, sync = killed
    with copy_of(folder) as journal:
        beside(journal, "-shm").unlink()
        if index is not None:
            beside(journal, "-shm").write_bytes(index)
        assert opened(journal, sync) == all_of_it()


def test_an_index_of_an_earlier_boot_may_be_ahead_of_its_log(killed: Killed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Power was lost: what a disk has of the two is not of one moment, and of what nobody waited for it has less."""
    folder, _ = killed
    with copy_of(folder) as journal:
        flip(beside(journal, "-wal"), 8 * stored_bytes(folder) - 1)
        assert log_damage(journal, synced=False) is not None
        monkeypatch.setattr(psutil, "boot_time", lambda: beside(journal, "-shm").stat().st_mtime + 1)
        assert log_damage(journal, synced=False) is None
        assert opened(journal, False) == all_of_it()[:-1]


def test_the_index_of_another_log_says_nothing_of_this_one(killed: Killed) -> None:
    folder, sync = killed
    with copy_of(folder) as other, copy_of(folder) as journal:
        assert opened(other, sync) == all_of_it()
        later = Journal(other, "r", 3, sync=sync)
        shutil.copy(beside(other, "-shm"), beside(journal, "-shm"))
        assert log_index(beside(journal, "-shm")) is not None
        later.close()
        assert opened(journal, sync) == all_of_it()


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """As a runner leaves it, but for the index of its log; nothing is in the file of the database itself yet."""
    living = tmp_path / "living"
    journal = Journal(living / NAME, "r", 1)
    for serial in range(STORED):
        journal.store(None, [Pushed(serial, (f"item {serial}",))])
    left = tmp_path / "left"
    shutil.copytree(living, left, ignore=shutil.ignore_patterns("*-shm"))
    journal.close()
    return left / NAME


def frame(number: int, behind: int) -> int:
    """A bit in a frame of the log."""
    return 8 * (HEADER_BYTES + number * FRAME_BYTES + behind)


@pytest.mark.parametrize(
    "bit",
    [frame(9, FRAME_HEADER_BYTES + 4000), frame(9, 18), frame(9, 9), frame(0, FRAME_HEADER_BYTES), 8 * 26],
    ids=["page", "sum", "salt", "first page", "sum of the header"],
)
def test_what_is_behind_a_flipped_bit_is_not_given_up_without_a_word(alone: Path, bit: int) -> None:
    flip(beside(alone, "-wal"), bit)
    before = {each.name: each.read_bytes() for each in alone.parent.iterdir()}
    with pytest.raises(RecomposeError, match=r"is damaged \(\d+ transactions of its log follow a page that is damaged"):
        Journal(alone, "r", 2)
    after = {each.name: each.read_bytes() for each in alone.parent.iterdir()}
    assert {name: after[name] for name in before} == before, "nothing was changed"


@pytest.mark.parametrize(("missing", "lost"), [(0, 0), (1, 1), (FRAME_BYTES // 2, 1), (FRAME_BYTES + 1, 2)])
def test_a_transaction_that_was_cut_short_never_was(alone: Path, missing: int, lost: int) -> None:
    log = beside(alone, "-wal")
    os.truncate(log, log.stat().st_size - missing)
    assert log_damage(alone, synced=True) is None
    assert opened(alone, True) == all_of_it()[: STORED - lost]


def test_a_last_transaction_that_the_disk_did_not_take_in_its_order_never_was(alone: Path) -> None:
    """Without power a later page may be there and an earlier one not; nobody was told that it is stored."""
    log = beside(alone, "-wal")
    flip(log, 8 * (log.stat().st_size - 4096))
    assert log_damage(alone, synced=True) is None
    assert opened(alone, True) == all_of_it()[:-1]


@pytest.mark.parametrize("sizes", [(40_000, 24_000, 8_000), (24_000, 20_000, 16_000), (8_000, 24_000, 16_000)])
def test_what_was_given_up_is_not_missed(alone: Path, tmp_path: Path, sizes: tuple[int, ...]) -> None:
    """Each was written, its fsync failed, and the next one was written over it; the last one was stored."""
    written = b""
    for number, size in enumerate(sizes):
        shutil.copytree(alone.parent, again := tmp_path / str(number))
        with closing(sqlite3.connect(again / NAME, isolation_level=None)) as db:
            db.execute("INSERT INTO pushed VALUES (?, 1, ?)", (STORED, bytes([number]) * size))
            log = beside(again / NAME, "-wal").read_bytes()
        written = log + written[len(log) :]
    beside(alone, "-wal").write_bytes(written)
    assert log_damage(alone, synced=True) is None
    flip(beside(alone, "-wal"), frame(9, 18))
    assert log_damage(alone, synced=True) is not None, "what was stored is missed all the same"


def test_without_waiting_for_the_disk_a_log_may_have_holes(alone: Path) -> None:
    """``journal_sync`` false promises a journal that is whole, and lacks the last moments, after the power was lost."""
    flip(beside(alone, "-wal"), frame(12, FRAME_HEADER_BYTES))
    assert 0 < len(opened(alone, False)) < STORED
