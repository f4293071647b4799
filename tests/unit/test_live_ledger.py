"""The runner's book of a micro-batch: under crashes of either side, every result becomes durable once, in order."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datapipe.spark import driver as module
from datapipe.spark.driver import Driver
from datapipe.spark.ledger import Ledger
from datapipe.spark.messages import Begin, Begun, Durable, Fetch, Key, Ready, Setup, StreamSource, TableSink
from datapipe.spark.query import covered, part_name

FIRST = Key("q", 0)


def test_a_partition_has_its_turn_when_those_before_are_there() -> None:
    ledger = Ledger()
    ledger.begin(FIRST, 0)
    assert (ledger.first_of(0), ledger.first_of(1)) == (0, None)
    ledger.delivered(0, 7)
    ledger.delivered(0, 7)
    ledger.delivered(2, 9)
    assert [ledger.first_of(partition) for partition in range(3)] == [0, 7, None]
    ledger.begin(FIRST, 0)
    assert ledger.first_of(1) is None, "another driver delivers all partitions again"


def test_a_refused_row_has_its_result_in_its_place() -> None:
    ledger = Ledger()
    ledger.begin(FIRST, 0)
    ledger.take(FIRST, 0)
    ledger.refuse(FIRST, 1, "refused")
    assert ledger.offer() is None
    ledger.result("r0")
    assert ledger.offer() == Ready(FIRST, 2)
    assert ledger.results(Fetch(ledger.number, 0, 2)) == ["r0", "refused"]


def test_results_of_a_batch_that_was_given_up_are_nobodys() -> None:
    ledger = Ledger()
    ledger.begin(FIRST, 0)
    ledger.take(FIRST, 0)
    ledger.begin(Key("q", 1), 0)
    ledger.take(Key("q", 1), 0)
    ledger.result("old")
    assert ledger.offer() is None
    ledger.result("new")
    assert ledger.offer() == Ready(Key("q", 1), 1)
    assert ledger.results(Fetch(ledger.number, 0, 1)) == ["new"]


@given(st.lists(st.sampled_from(["take", "result", "offer", "write", "driver dies", "runner dies"]), max_size=80))
def test_whoever_dies_the_table_gets_every_result_once_and_in_order(steps: list[str]) -> None:
    """``offered`` is what can be written; ``table`` what is durable; a result is the number of its row."""
    ledger, offered, table, on_the_way = Ledger(), 0, list[int](), list[int]()
    wanted = ledger.begin(FIRST, 0)

    def do(step: str) -> None:
        nonlocal ledger, wanted, offered
        if step == "take" and ledger.take(FIRST, wanted):
            on_the_way.append(wanted)
            wanted += 1
        elif step == "result" and on_the_way:
            ledger.result(str(on_the_way.pop(0)))
        elif step == "offer" and (ready := ledger.offer()) is not None:
            offered = ready.until
        elif step == "write" and offered > len(table):
            (text,) = ledger.results(Fetch(ledger.number, len(table), 1)) or ()
            table.append(int(text))
            ledger.durable(FIRST, len(table))
        elif "dies" in step:
            offered = 0
            if step == "runner dies":
                ledger = Ledger()
                on_the_way.clear()
            wanted = ledger.begin(FIRST, len(table))

    for step in steps:
        do(step)
    while len(table) < 20:
        for step in ("take", "result", "offer", "write"):
            do(step)
    assert table == list(range(len(table)))


def test_parts_tell_by_their_names_how_far_a_batch_is() -> None:
    assert covered([]) == 0
    names = [part_name(0, 10) + ".zstd.parquet", part_name(10, 5) + ".snappy.parquet", "_SUCCESS", ".part-0.crc"]
    assert covered(names) == 15
    assert covered([*names, part_name(20, 5) + ".parquet"]) == 15, "there is a gap"


# --- the driver's part in a micro-batch, without Spark ----------------------------------------------------------------


KEY = Key("q", 3)


class Memory:
    """A table that has ``held`` rows of the batch; it notes the numbers of those that come."""

    def __init__(self, held: int = 0) -> None:
        self.held, self.written = held, list[Fetch]()

    def durable(self, key: Key) -> int:
        return self.held

    def write(self, key: Key, what: Fetch) -> None:
        assert (key, what.first) == (KEY, self.held)
        self.held += what.rows
        self.written.append(what)


@contextmanager
def batch(
    monkeypatch: pytest.MonkeyPatch, table: Memory, rows: int
) -> Iterator[tuple[Driver, Connection, threading.Thread]]:
    """A driver in the middle of ``foreachBatch``, and the runner's end of its pipe."""
    monkeypatch.setattr(module, "delivered", lambda frame, door, number: iter([rows - 1, 0, 1]))
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


def test_results_that_are_in_the_table_are_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Memory(held=2)
    with batch(monkeypatch, table, rows=40) as (driver, runner, spark):
        assert runner.recv() == Begin(KEY, 2)
        driver._hear(Begun(KEY, 1))
        driver._hear(Ready(KEY, 40))
        while spark.is_alive():
            driver._parts.write_due()
    assert table.written == [Fetch(1, 2, 38)]
