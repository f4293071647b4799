"""What a group commit costs in each embedded store that a journal could be kept in: ``python -m benchmarks.stores``.

A group is ``n`` items of 200 bytes and one record of positions, stored for good (fsync) before the next begins. LMDB
and RocksDB are no dependencies: they are measured where ``lmdb`` and ``rocksdict`` are installed.
"""

from __future__ import annotations

import argparse
import importlib
import sqlite3
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

ITEM = b"x" * 200
Commit = Callable[[int, int], None]
"""Stores items ``first`` … ``first + count - 1``."""


def sqlite(folder: Path) -> Commit:
    db = sqlite3.connect(folder / "journal.sqlite", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE item (serial INTEGER PRIMARY KEY, body BLOB NOT NULL)")
    db.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER)")

    def commit(first: int, count: int) -> None:
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT INTO item VALUES (?, ?)", [(serial, ITEM) for serial in range(first, first + count)])
        db.execute("INSERT OR REPLACE INTO meta VALUES ('next', ?)", (first + count,))
        db.execute("COMMIT")

    return commit


def lmdb(folder: Path) -> Commit:
    env: Any = importlib.import_module("lmdb").open(str(folder / "lmdb"), map_size=2**32)

    def commit(first: int, count: int) -> None:
        with env.begin(write=True) as txn:
            for serial in range(first, first + count):
                txn.put(serial.to_bytes(8, "big"), ITEM, append=False)
            txn.put(b"next", (first + count).to_bytes(8, "big"))

    return commit


def rocksdb(folder: Path) -> Commit:
    rocks: Any = importlib.import_module("rocksdict")
    db, durable = rocks.Rdict(str(folder / "rocks"), rocks.Options(raw_mode=True)), rocks.WriteOptions()
    durable.sync = True

    def commit(first: int, count: int) -> None:
        batch = rocks.WriteBatch(raw_mode=True)
        for serial in range(first, first + count):
            batch.put(serial.to_bytes(8, "big"), ITEM)
        batch.put(b"next", (first + count).to_bytes(8, "big"))
        db.write(batch, durable)

    return commit


STORES: dict[str, Callable[[Path], Commit]] = {"sqlite": sqlite, "lmdb": lmdb, "rocksdb": rocksdb}


def measure(commit: Commit, group: int, groups: int, first: int) -> str:
    took_s: list[float] = []
    cpu_s = process_time()
    for number in range(groups):
        began_s = perf_counter()
        commit(first + number * group, group)
        took_s.append(perf_counter() - began_s)
    cpu_us = (process_time() - cpu_s) / (group * groups) * 1e6
    tail_ms = statistics.quantiles(took_s, n=20)[-1] * 1e3
    return (
        f"{group:>5} items a commit: median {statistics.median(took_s) * 1e3:6.2f} ms, p95 {tail_ms:6.2f} ms, "
        f"{group * groups / sum(took_s):>9,.0f} items/s, {cpu_us:6.1f} us of CPU an item"
    )


def main(args: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=300)
    groups = parser.parse_args(args).groups
    for name, opened in STORES.items():
        with TemporaryDirectory() as folder:
            try:
                commit = opened(Path(folder))
            except ModuleNotFoundError as error:
                print(f"{name}: not measured, {error.name} is not installed")
                continue
            for turn, group in enumerate((1, 10, 100, 1000)):
                print(f"{name:8}{measure(commit, group, groups, turn * 10**8)}", flush=True)


if __name__ == "__main__":
    main()
