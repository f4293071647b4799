"""The driver's part in a micro-batch, without Spark: what it sends, what it takes, what it writes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any

import pytest

from datapipe.spark import driver as module
from datapipe.spark.driver import Driver
from datapipe.spark.messages import Begin, Begun, Durable, Fetch, Key, Ready, Setup, StreamSource, TableSink

KEY = Key("q", 3)


class Memory:
    """A table that notes the numbers of the rows that come."""

    def __init__(self) -> None:
        self.held, self.written = 0, list[Fetch]()

    def durable(self, key: Key) -> int:
        return self.held

    def write(self, key: Key, what: Fetch) -> None:
        assert (key, what.first) == (KEY, self.held)
        self.held += what.rows
        self.written.append(what)


@contextmanager
def batch(patch: pytest.MonkeyPatch, table: Memory, rows: int) -> Iterator[tuple[Driver, Connection, threading.Thread]]:
    """A driver in the middle of ``foreachBatch``, and the runner's end of its pipe."""
    patch.setattr(module, "delivered", lambda frame, door, number: iter([rows - 1, 0, 1]))
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


def test_a_batch_ends_when_the_results_of_all_its_rows_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Memory()
    with batch(monkeypatch, table, rows=3) as (driver, runner, spark):
        assert runner.recv() == Begin(KEY, 0)
        driver._hear(Ready(KEY, 2))
        assert driver._parts.write_due() == [], "the runner has not said by which number it knows the batch"
        driver._hear(Begun(KEY, 5))
        driver._hear(Ready(Key("q", 2), 3))
        assert driver._parts.write_due() == [], "two results, of three"
        assert spark.is_alive()
        driver._hear(Ready(KEY, 3))
        while spark.is_alive():  # it may not have counted the rows
            for durable in driver._parts.write_due():
                assert durable == Durable(KEY, 3)
    assert table.written == [Fetch(5, 0, 3)]


def test_results_that_came_while_a_part_was_written_are_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Slow(Memory):
        def write(self, key: Key, what: Fetch) -> None:
            begun.set()
            assert go_on.wait(30)
            super().write(key, what)

    monkeypatch.setattr(module.os, "_exit", lambda _: None)  # the pipe is closed before the thread ends
    table = Slow()
    with batch(monkeypatch, table, rows=9000) as (driver, connection, spark):
        listening = threading.Thread(target=driver._listen, daemon=True)
        listening.start()
        assert connection.recv() == Begin(KEY, 0)
        connection.send(Begun(KEY, 1))
        connection.send(Ready(KEY, 2000))
        assert begun.wait(30)
        for until in range(2500, 9001, 500):
            connection.send(Ready(KEY, until))
        go_on.set()
        while spark.is_alive():
            if connection.poll(0.01):
                connection.recv()
    listening.join(30)
    assert [what.rows for what in table.written] == [2000, 7000]
