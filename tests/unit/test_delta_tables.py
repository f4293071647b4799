"""Tables with snapshots: a batch counts once, whoever is killed; readers see one snapshot; old days go."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from datapipe.spark.delta import TableKind, commit, tidy, write_files

SCHEMA = pa.schema([("date", pa.date32()), ("app", pa.string()), ("number", pa.int64())])
TODAY = datetime.now(UTC).date()
ROWS = 20


def batch(number: int, day: date = TODAY, schema: Any = SCHEMA, **more: Any) -> Iterator[pa.RecordBatch]:
    rows = [{"date": day, "app": "ab"[k % 2], "number": ROWS * number + k, **more} for k in range(ROWS)]
    yield pa.RecordBatch.from_pylist(rows, schema=schema)


def put(kind: TableKind, number: int, rows: Iterator[pa.RecordBatch] | None = None) -> None:
    written = [row for each in write_files(kind, rows or batch(number)) for row in each.to_pylist()]
    done = kind.opened().transaction_version("stream")
    if done is None or done < number:
        commit(kind, written, ("stream", number))


def numbers(folder: Path) -> list[int]:
    rows = DeltaTable(str(folder)).to_pyarrow_dataset()
    return [row[0] for row in duckdb.sql("SELECT number FROM rows ORDER BY number").fetchall()] if rows else []


def test_small_files_are_merged_and_a_reader_keeps_its_snapshot(tmp_path: Path) -> None:
    kind = TableKind(tmp_path / "t", SCHEMA)
    for number in range(8):
        put(kind, number)
    before = DeltaTable(str(kind.folder)).to_pyarrow_dataset()
    done = tidy(kind.folder, keep_days=30, today=TODAY)
    assert (done["files_before"], done["files"], done["removed"]) == (16, 2, 0)
    assert before.count_rows() == 8 * ROWS, "files of an earlier snapshot stay for a while"
    assert numbers(kind.folder) == [*range(8 * ROWS)]
    put(kind, 8)
    assert len(numbers(kind.folder)) == 9 * ROWS


def test_days_beyond_the_rule_go_and_so_do_files_of_nobody(tmp_path: Path) -> None:
    kind = TableKind(tmp_path / "t", SCHEMA)
    put(kind, 0, batch(0, TODAY - timedelta(days=31)))
    put(kind, 1, batch(1, TODAY - timedelta(days=29)))
    orphan = kind.folder / f"date={TODAY}" / "app=a" / "part-of-a-writer-that-died.parquet"
    orphan.parent.mkdir(parents=True)
    orphan.write_bytes(b"half a file")
    long_ago = time.time() - 86_400
    os.utime(orphan, (long_ago, long_ago))
    tidy(kind.folder, keep_days=30, today=TODAY)
    assert numbers(kind.folder) == [*range(ROWS, 2 * ROWS)]
    assert not orphan.exists()


def test_a_table_takes_columns_of_a_later_version(tmp_path: Path) -> None:
    put(TableKind(tmp_path / "t", SCHEMA), 0)
    later = SCHEMA.append(pa.field("reason", pa.string()))
    put(TableKind(tmp_path / "t", later), 1, batch(1, schema=later, reason="late"))
    reasons = DeltaTable(str(tmp_path / "t")).to_pyarrow_table()["reason"].to_pylist()
    assert Counter(reasons) == {"late": ROWS, None: ROWS}


WRITER = """
import sys
sys.path[:0] = [sys.argv[2]]
from test_delta_tables import *
kind = TableKind(Path(sys.argv[1]), SCHEMA)
done = kind.opened().transaction_version("stream")
print("at work", flush=True)
for number in range(-1 if done is None else done, int(sys.argv[3])):
    put(kind, number + 1)
    if number % 7 == 0:
        tidy(kind.folder, 30, TODAY)
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kills", [2, pytest.param(100, marks=pytest.mark.long)])
def test_kills_of_writer_and_compaction_lose_and_double_nothing(tmp_path: Path, kills: int) -> None:
    chance = random.Random(kills)
    folder = tmp_path / "t"
    command = [sys.executable, "-c", WRITER, str(folder), str(Path(__file__).parent)]
    for _ in range(kills):
        writer = subprocess.Popen([*command, "1000000"], stdout=subprocess.PIPE, text=True)
        assert writer.stdout.readline() == "at work\n"
        time.sleep(chance.uniform(0.02, 0.8))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
    last = DeltaTable(str(folder)).transaction_version("stream") or 0
    subprocess.run([*command, str(last + 3)], check=True, capture_output=True)
    end = DeltaTable(str(folder)).transaction_version("stream")
    assert numbers(folder) == [*range(ROWS * (end + 1))]
