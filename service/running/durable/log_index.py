"""What the index of a write-ahead log, SQLite's file ``-shm``, says that was stored in the log.

SQLite writes there, after each transaction that it stored, how many frames the log has by then, and trusts it as long
as a process has the journal open: the first that opens it begins it anew from the log. A process that is killed leaves
it as it was, in the memory of the operating system. The format, its head above all, is published and does not change:
https://sqlite.org/walformat.html#the_wal_index_file_format
"""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import NamedTuple

import psutil

HEAD = struct.Struct("=IIIBBHII2I8s2I")
"""Version, unused, changes, whether it is set up, order of check sums, bytes of a page, frames, pages of the database,
sum of the last frame, salts, sum of this. In the order of bytes of the machine; the salts as they are in the log."""
VERSION = 3007000
SUMMED_BYTES = 40


class LogIndex(NamedTuple):
    """``frames`` of the log with these ``salts`` were stored."""

    frames: int
    salts: bytes


def log_index(path: Path) -> LogIndex | None:
    """None: it says nothing that is sure. Both copies of its head have to be alike, their sum right, and the file of a
    process of this machine since it started: one that is from before lost power may be newer than its log."""
    try:
        written_s = path.stat().st_mtime
        with path.open("rb") as file:
            first, second = file.read(HEAD.size), file.read(HEAD.size)
    except OSError:
        return None
    if len(second) < HEAD.size or first != second or not psutil.boot_time() < written_s <= time.time():
        return None
    version, _, _, is_set_up, _, _, frames, _, _, _, salts, *sums = HEAD.unpack(first)
    if version != VERSION or is_set_up != 1 or tuple(sums) != _sums(first[:SUMMED_BYTES]):
        return None
    return LogIndex(frames, salts)


def _sums(head: bytes) -> tuple[int, int]:
    """As of the log's frames, in the order of bytes of the machine."""
    words = struct.unpack(f"={len(head) // 4}I", head)
    first = second = 0
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) % 2**32
        second = (second + odd + first) % 2**32
    return first, second
