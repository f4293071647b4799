"""Detect if data that was stored in the write-ahead log of a journal is missing.

SQLite reads its log up to the first frame with a wrong check sum, and does not report the rest, because a transaction
that a crash cut short ends the same way. After a process was killed, the index of the log contains the number of stored
frames (``log_index``). If the index gives no answer, as in a copy without it or after a power failure, transactions
after the damaged place show that a crash did not cut the log there: after a crash there are none. The format:
https://sqlite.org/fileformat2.html#walformat
"""

import struct
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
from numpy.typing import NDArray

HEADER_BYTES, FRAME_HEADER_BYTES = 32, 24
ORDERS = {0x377F0682: "<u4", 0x377F0683: ">u4"}
"""Byte order of the words in check sums, by the number with which the file begins."""
BLOCK_FRAMES = 2048
"""Number of frames that are checked together: some 8 MB of 4 KB pages."""
UNSURE = 1
"""Number of consecutive transactions after the place that may be an illusion: an abandoned transaction (no room, no
power) may have left its end there. Several abandoned ones do not form a series: each overwrote the previous one, so the
check sums of the remains do not continue."""
Words = NDArray[np.uint32]


class Look(NamedTuple):
    """The content of a log. ``salts`` None: its header is damaged, so SQLite reads no frame."""

    salts: bytes | None
    taken: int
    """Number of first frames that are intact."""
    behind: int
    """Number of consecutive transaction ends of this log after these frames."""


def log_damage(journal: Path, *, synced: bool) -> str | None:
    """Return the stored part of the log that SQLite will not find; None if this is not certain. Call it before SQLite
    opens the journal. Only reads, and twice, as another process may be writing.

    ``synced``: each transaction waited for the disk. Otherwise the log may have holes after a power failure, and the
    data after them was not guaranteed.
    """
    log, index_file = (journal.with_name(journal.name + suffix) for suffix in ("-wal", "-shm"))
    for _ in range(2):
        index = log_index(index_file)
        look = look_at(log)
        if look is None:
            return None
        is_still = index is not None and log_index(index_file) == index
        how = (_missing(look, index) if is_still else None) or (_behind(look) if synced else None)
        if how is None:
            return None
    return how


def _missing(look: Look, index: "LogIndex | None") -> str | None:
    if index is None or look.taken >= index.frames or look.salts not in (None, index.salts):
        return None
    return f"only the first {look.taken} of {index.frames} pages that were stored in its log are intact"


def _behind(look: Look) -> str | None:
    if look.behind <= UNSURE:
        return None
    return f"{look.behind} transactions of its log follow a page that is damaged"


class _Header(NamedTuple):
    """The header. ``right`` False: it is damaged, so SQLite reads no frame."""

    page_bytes: int
    salts: Words
    """Two words in each frame of this log; remains of an earlier log have others."""
    order: str
    sums: Words
    right: bool


def look_at(log: Path) -> Look | None:
    """Return the content of the log; None if there is none, or if it was restarted meanwhile."""
    try:
        file = log.open("rb")
    except FileNotFoundError:
        return None
    with file:
        stored = file.read(HEADER_BYTES)
        header = _header(stored) if len(stored) == HEADER_BYTES else None
        if header is None:
            return Look(None, 0, 0)
        before, taken, rows, whole = header.sums, header.right, np.zeros(1, np.int64), 0
        frame_bytes = FRAME_HEADER_BYTES + header.page_bytes
        while len(block := file.read(frame_bytes * BLOCK_FRAMES)) >= frame_bytes:
            count = len(block) // frame_bytes
            frames = np.frombuffer(block, np.uint8, count * frame_bytes).reshape(count, frame_bytes)
            heads = _words(frames[:, :FRAME_HEADER_BYTES], ">u4")
            ours = (heads[:, 2:4] == header.salts).all(axis=1)
            right, goes_on = _sums_are_right(frames, heads[:, 4:6], before, header.order)
            end = _first(~(ours & right)) if taken else 0
            before, taken, whole = heads[-1, 4:6], end == count, whole + end
            in_row = np.bincount(np.cumsum(~goes_on[end:]), ours[end:] & (heads[end:, 1] != 0), 1).astype(np.int64)
            rows = np.array([max(rows[:-1], default=0), rows[-1] + in_row[0], *in_row[1:]])
        file.seek(0)
        if file.read(HEADER_BYTES) != stored:
            return None
        return Look(stored[16:24] if header.right else None, whole, int(max(rows)))


def _first(marks: NDArray[np.bool_]) -> int:
    return int(marks.argmax()) if marks.any() else len(marks)


def _header(stored: bytes) -> _Header | None:
    """Return the header; None if it does not contain the length of a frame."""
    words = _words(np.frombuffer(stored, np.uint8)[np.newaxis], ">u4")[0]
    page_bytes, order = int(words[2]), ORDERS.get(int(words[0]), "<u4")
    if not 512 <= page_bytes <= 65536 or page_bytes % 8:
        return None
    summed = _words(np.frombuffer(stored, np.uint8)[np.newaxis, :24], order)
    right = bool((_sums(summed, np.zeros((1, 2), np.uint32))[0] == words[6:8]).all())
    return _Header(page_bytes, words[4:6], order, words[6:8], right)


def _sums_are_right(
    frames: NDArray[np.uint8], stored: Words, before: Words, order: str
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return for each frame whether the sum up to its predecessor is right (``before``: of the first), and whether it
    was written after its predecessor, whose sum may differ by now."""
    words = _words(np.concatenate((frames[:, :8], frames[:, FRAME_HEADER_BYTES:]), axis=1), order)
    sums = _sums(words, np.vstack((before, stored[:-1])))
    right: NDArray[np.bool_] = (sums == stored).all(axis=1)
    if right.all():
        return right, right
    return right, right | (_sums(words, np.vstack((before, sums[:-1]))) == stored).all(axis=1)


def _sums(words: Words, before: Words) -> Words:
    """Return check sums of rows of words, from ``before`` on: per pair s0 += x0 + s1, s1 += x1 + s0, modulo 2³²."""
    first, second = before.T.copy()
    columns = np.ascontiguousarray(words.T)
    for even, odd in zip(columns[::2], columns[1::2], strict=True):
        first += even + second
        second += odd + first
    return np.stack((first, second), axis=1)


def _words(rows: NDArray[np.uint8], order: str) -> Words:
    return np.ascontiguousarray(rows).view(order).astype(np.uint32)


# Read the index of a write-ahead log, SQLite's file ``-shm``: the number of frames that were stored in the log.
#
# After each transaction that SQLite stored, it writes there how many frames the log has by then, and trusts it as long
# as a process has the journal open: the first that opens it begins it anew from the log. A process that is killed
# leaves it as it was, in the memory of the operating system. The format, above all its head, is published and does not
# change: https://sqlite.org/walformat.html#the_wal_index_file_format

HEAD = struct.Struct("=IIIBBHII2I8s2I")
"""Version, unused, changes, initialized, order of check sums, bytes per page, frames, pages of the database, sum of the
last frame, salts, sum of this header. In the machine's byte order; the salts as in the log."""
VERSION = 3007000
SUMMED_BYTES = 40


class LogIndex(NamedTuple):
    """The index: ``frames`` of the log with these ``salts`` were stored."""

    frames: int
    salts: bytes


def log_index(path: Path) -> LogIndex | None:
    """Return the index; None if it is not reliable. Both copies of its header must be equal and their sum right, and a
    process must have written it since the machine started: after a power failure, it may be newer than its log."""
    try:
        written_s = path.stat().st_mtime
        with path.open("rb") as file:
            first, second = file.read(HEAD.size), file.read(HEAD.size)
    except OSError:
        return None
    if len(second) < HEAD.size or first != second or not psutil.boot_time() < written_s <= time.time():
        return None
    version, _, _, is_set_up, _, _, frames, _, _, _, salts, *sums = HEAD.unpack(first)
    if version != VERSION or is_set_up != 1 or sums != _sums_of_head(first[:SUMMED_BYTES]):
        return None
    return LogIndex(frames, salts)


def _sums_of_head(head: bytes) -> list[int]:
    """Return the sums, computed as for the log's frames, in the machine's byte order."""
    sums: list[int] = _sums(np.frombuffer(head, np.uint32)[np.newaxis], np.zeros((1, 2), np.uint32))[0].tolist()
    return sums
