"""The driver's part in a micro-batch, without Spark: what it sends, what it takes, what it writes."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any

import pytest

from datapipe.spark import driver as module
from datapipe.spark.driver import Driver
from datapipe.spark.messages import Begin, Durable, Key, ResultRows, Room, Rows, Setup, StreamSource, TableSink, Wanted

KEY = Key("q", 3)


class Memory:
    """A table that has ``held`` rows of the batch."""

    def __init__(self, held: int = 0) -> None:
        self.rows = [f"held {row}" for row in range(held)]

    def durable(self, key: Key) -> int:
        return len(self.rows)

    def write(self, key: Key, first: int, results: Sequence[str]) -> None:
        assert first == len(self.rows)
        self.rows.extend(results)


@contextmanager
def batch(
    monkeypatch: pytest.MonkeyPatch, table: Memory, rows: int
) -> Iterator[tuple[Driver, Connection, threading.Thread]]:
    """A driver in the middle of ``foreachBatch``, and the runner's end of its pipe."""
    monkeypatch.setattr(module, "texts_of", lambda _: iter([f"row {row}" for row in range(rows)]))
    mine, its = Pipe()
    driver: Any = Driver(its, Setup("app", StreamSource("double"), TableSink("x"), None, once=True, query=""), table)
    driver._query = SimpleNamespace(id="q")
    driver._started.set()
    spark = threading.Thread(target=driver._batch, args=(None, KEY.batch))
    spark.start()
    with mine, its:
        yield driver, mine, spark
        spark.join(30)
        assert not spark.is_alive(), "the batch has not ended"


def write(driver: Driver, count: int) -> None:
    for durable in driver._parts.write(count):
        driver.tell(durable)


def test_a_batch_ends_when_the_results_of_all_its_rows_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Memory()
    with batch(monkeypatch, table, rows=3) as (driver, runner, spark):
        assert runner.recv() == Begin(KEY, 0)
        driver._hear(Wanted(KEY, 0, 256))
        assert runner.recv() == Rows(KEY, 0, ["row 0", "row 1", "row 2"])
        driver._hear(ResultRows(KEY, 0, ["a", "b"]))
        driver._parts.write_due()
        assert table.rows == []
        assert spark.is_alive()
        driver._hear(ResultRows(KEY, 2, ["c"]))
        write(driver, 3)
        assert runner.recv() == Durable(KEY, 3)
    assert table.rows == ["a", "b", "c"]


def test_results_that_were_meant_for_a_driver_before_are_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Memory()
    with batch(monkeypatch, table, rows=4) as (driver, runner, _):
        runner.recv()
        driver._hear(Wanted(KEY, 4, 256))
        driver._hear(ResultRows(KEY, 2, ["c"]))
        driver._hear(ResultRows(Key("q", 2), 0, ["of the batch before"]))
        driver._hear(ResultRows(KEY, 0, ["a", "b"]))
        driver._hear(ResultRows(KEY, 0, ["a", "b", "c", "d"]))
        write(driver, 4)
    assert table.rows == ["a", "b", "c", "d"]


def test_rows_that_the_runner_has_are_not_sent_and_those_in_the_table_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = Memory(held=2)
    with batch(monkeypatch, table, rows=40) as (driver, runner, _):
        assert runner.recv() == Begin(KEY, 2)
        driver._hear(Wanted(KEY, 33, 256))
        assert runner.recv() == Rows(KEY, 33, [f"row {row}" for row in range(33, 40)])
        driver._hear(ResultRows(KEY, 2, [str(row) for row in range(2, 40)]))
        write(driver, 38)
    assert table.rows == ["held 0", "held 1", *(str(row) for row in range(2, 40))]


def test_rows_wait_until_the_runner_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Memory()
    with batch(monkeypatch, table, rows=64) as (driver, runner, _):
        runner.recv()
        driver._hear(Wanted(KEY, 0, 32))
        assert len(runner.recv().texts) == 32
        assert not runner.poll(0.05)
        driver._hear(Room(KEY, 64))
        assert runner.recv().first == 32
        driver._hear(ResultRows(KEY, 0, ["x"] * 64))
        write(driver, 64)
    assert len(table.rows) == 64


def test_results_that_came_while_a_part_was_written_are_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    begun, go_on = threading.Event(), threading.Event()

    class Slow(Memory):
        def write(self, key: Key, first: int, results: Sequence[str]) -> None:
            begun.set()
            assert go_on.wait(30)
            written.append(len(results))
            super().write(key, first, results)

    monkeypatch.setattr(module.os, "_exit", lambda _: None)  # the pipe is closed before the thread ends
    table = Slow()
    with batch(monkeypatch, table, rows=9000) as (driver, connection, spark):
        listening = threading.Thread(target=driver._listen, daemon=True)
        listening.start()
        assert connection.recv() == Begin(KEY, 0)
        connection.send(Wanted(KEY, 0, 9000))
        connection.send(ResultRows(KEY, 0, ["x"] * 2000))
        assert begun.wait(30)
        for first in range(2000, 9000, 500):
            connection.send(ResultRows(KEY, first, ["x"] * 500))
        go_on.set()
        while spark.is_alive():
            if connection.poll(0.01):
                connection.recv()
    listening.join(30)
    assert written == [2000, 7000]
