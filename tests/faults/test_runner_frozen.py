"""A runner that is killed, or stopped and let go on later, while another goes on with its run: real processes."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

PATIENCE_S = 60
RUNNER = """
import json, sys
from apps.output.parquet_files import ParquetFiles
from apps.output.port import AT_ONCE
from service.bodies.spec import RunSpec, SinkSpec, SourceSpec
from service.running.asking.requests import PushMany, ReadResults, ReadStatus, Start
from service.running.runner import Runner

epoch, folder = int(sys.argv[1]), sys.argv[2]
how = {"source": SourceSpec(kind="push"), "durability": "exactly-once", "options": {"compute": "wait", "total_ms": 3}}
if len(sys.argv) > 3:
    ParquetFiles.gather, how["sink"] = AT_ONCE, SinkSpec(kind="parquet", path=sys.argv[3])
    how["options"]["total_ms"] = 120  # so that there is a middle of its work
runner = Runner(RunSpec(app="synthetic", run="r", epoch=epoch, journals=folder, pool="local", **how))
runner.ask(Start())
print("up", flush=True)
for line in sys.stdin:
    ask, *args = json.loads(line)
    if ask == "push":
        taken = runner.ask(PushMany(tuple(args)))
        print(json.dumps([taken.serials, str(taken.refusal)]), flush=True)
    elif ask == "results":
        print(json.dumps([row.serial for row in runner.ask(ReadResults(None, 1000))]), flush=True)
    else:
        print(json.dumps(runner.ask(ReadStatus()).failure), flush=True)
"""


class Process:
    def __init__(self, epoch: int, folder: Path, sink: Path | None = None) -> None:
        args = [sys.executable, "-c", RUNNER, str(epoch), str(folder), *([] if sink is None else [str(sink)])]
        self._process = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._read() == "up"

    def ask(self, *question: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._read())

    def shown(self, count: int) -> list[int]:
        """The serial numbers of its results, when there are so many."""
        for _ in range(20 * PATIENCE_S):
            if len(found := self.ask("results")) >= count:
                return list(found)
            time.sleep(0.05)
        raise AssertionError(f"{len(found)} of {count} results")

    def _read(self) -> str:
        """What the runner logs goes the same way."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(("[", '"', "null", "up")):
                return line.strip()
        raise AssertionError("the runner has ended")

    def signal(self, number: signal.Signals) -> None:
        os.kill(self._process.pid, number)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    started: list[Process] = []
    yield started
    for each in started:
        each.end()


def test_every_acknowledged_item_leaves_once_however_often_the_runner_dies(
    tmp_path: Path, processes: list[Process]
) -> None:
    acknowledged, seen = 0, list[int]()
    for epoch in range(1, 6):
        processes.append(runner := Process(epoch, tmp_path))
        assert runner.shown(len(seen))[: len(seen)] == seen, "what was seen is there, and in its place"
        for _ in range(3 * epoch):
            serials, refusal = runner.ask("push", *range(acknowledged, acknowledged + 5))
            assert serials == list(range(acknowledged, acknowledged + len(serials))), refusal
            acknowledged += len(serials)
        seen = runner.ask("results")
        assert seen == list(range(len(seen)))
        runner.signal(signal.SIGKILL)
    processes.append(last := Process(6, tmp_path))
    assert last.shown(acknowledged) == list(range(acknowledged))


def test_a_stopped_runner_that_goes_on_later_writes_nothing(tmp_path: Path, processes: list[Process]) -> None:
    processes.append(old := Process(1, tmp_path))
    assert old.ask("push", *range(10))[0] == list(range(10))
    old.signal(signal.SIGSTOP)
    processes.append(new := Process(2, tmp_path))
    assert new.ask("push", 10)[0] == [10]
    assert new.shown(11) == list(range(11))
    old.signal(signal.SIGCONT)
    serials, refusal = old.ask("push", 11)
    assert (serials, "writes nothing any more" in refusal or "takes no more items" in refusal) == ([], True)
    shown = old.ask("results")
    assert shown == list(range(len(shown)))
    assert len(shown) <= 10, "it shows nothing of the other's epoch"
    assert new.ask("push", 11)[0] == [11]


def test_a_runner_that_is_stopped_in_the_middle_of_its_work_adds_nothing_to_a_sink(
    tmp_path: Path, processes: list[Process]
) -> None:
    table = tmp_path / "table"
    processes.append(old := Process(1, tmp_path / "journals", table))
    assert len(old.ask("push", *range(60))[0]) == 60
    wait_until(lambda: len(serials(table)) >= 5)
    wait_until(lambda: stopped_between_commits(old, tmp_path / "journals" / "synthetic" / "r.journal"))
    before = serials(table)
    assert len(before) < 60, "it was stopped too late"
    processes.append(new := Process(2, tmp_path / "journals", table))
    assert new.ask("push", 60)[0] == [60]
    wait_until(lambda: len(serials(table)) >= 61)
    old.signal(signal.SIGCONT)
    assert old.ask("push", 61)[0] == []
    assert new.ask("push", 61)[0] == [61]
    wait_until(lambda: len(serials(table)) >= 62)
    assert serials(table) == list(range(62))
    written = {path.name.rpartition("-")[2] for path in table.glob("*.parquet")}
    assert written == {"000001.parquet", "000002.parquet"}, "both took part"


def stopped_between_commits(runner: Process, journal: Path) -> bool:
    """Within one it would keep the lock, and whoever follows waits for its end: the service kills it."""
    runner.signal(signal.SIGSTOP)
    with closing(sqlite3.connect(journal, timeout=0, isolation_level=None)) as db:
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            runner.signal(signal.SIGCONT)
            return False
    return True


def serials(table: Path) -> list[int]:
    """Of all rows that readers find."""
    if not table.is_dir():
        return []
    found = pyarrow.dataset.dataset(str(table), format="parquet").to_table()
    return sorted(found["serial"].to_pylist()) if found.num_columns else []


def wait_until(what: Callable[[], bool]) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < until_s, "it did not come"
        time.sleep(0.02)
