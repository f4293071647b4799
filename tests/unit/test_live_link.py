"""The runner's end of a live Spark source: with a driver that is a process, but no Spark; and its book of a batch."""

import json
import sys
from multiprocessing.connection import Client
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compositions.errors import RecomposeError
from datapipe.spark import process as module
from datapipe.spark.door import Door
from datapipe.spark.ledger import Ledger
from datapipe.spark.link import SparkLink
from datapipe.spark.messages import Deliver, Fetch, Key, Ready, Setup, StreamSource, TableSink
from datapipe.spark.query import covered, part_name
from service.runner.wiring.result_buffer import ResultBatch

DOUBLE = Path(__file__).parent / "live_driver_double.py"


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE_S", 0.0)


def link_to(folder: Path, rows: int = 40) -> SparkLink:
    (folder / "rows").write_text(str(rows))
    setup = Setup("doubler", StreamSource("double"), TableSink("x"), str(folder), once=True, query="q")
    command = (sys.executable, str(DOUBLE), str(folder))
    return SparkLink(setup, read, clock=monotonic, command=command)


def read(row: dict[str, Any]) -> int:
    if row["n"] == 13:
        raise ValueError("13 is unlucky")
    return int(row["n"])


def run(link: SparkLink) -> list[int]:
    """What an app would: doubles every item. Returns the items that it was given."""
    items = []
    for arrival in link:
        items.append(arrival.value)
        link.take(ResultBatch(len(items), [arrival.value * 2]))
    link.finish()
    return items


def table(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "done").read_text().splitlines()]


UNLUCKY = {"error": "doubler does not accept this row: 13 is unlucky"}
WANTED = [UNLUCKY if n == 13 else {"value": 2 * n} for n in range(40)]


def test_every_row_has_its_result_in_order_and_a_refused_one_its_reason(tmp_path: Path) -> None:
    link = link_to(tmp_path)
    assert run(link) == [n for n in range(40) if n != 13]
    assert table(tmp_path) == WANTED
    status = link.status()
    assert (status["driver_pid"], status["restarts"], status["rows_refused"]) == (None, 0, 1)


@pytest.mark.parametrize("after", [0, 3, 10, 25, 39])
def test_a_driver_that_dies_is_replaced_and_no_row_is_processed_twice(tmp_path: Path, after: int) -> None:
    (tmp_path / "die").write_text(str(after))
    link = link_to(tmp_path)
    assert run(link) == [n for n in range(40) if n != 13]
    assert table(tmp_path) == WANTED
    assert link.status()["restarts"] == 1


def test_an_executor_of_a_driver_that_died_is_turned_away(tmp_path: Path) -> None:
    link = link_to(tmp_path, rows=100)
    arrivals = iter(link)
    for _ in range(5):
        link.take(ResultBatch(0, [next(arrivals).value]))
    for message in (Deliver(0, 0), Fetch(0, 0, 1)):
        with Client(link._setup.door, "AF_UNIX") as executor:
            executor.send(message)
            with pytest.raises(EOFError):
                executor.recv()
    link.close()
    link.finish()


def test_a_runner_that_starts_anew_goes_on_from_what_is_durable(tmp_path: Path) -> None:
    first = link_to(tmp_path, rows=20)
    run(first)
    second = link_to(tmp_path)
    assert run(second) == list(range(20, 40))
    assert table(tmp_path) == WANTED


@pytest.mark.parametrize(("how", "said"), [("fails", "no such format"), ("crashes", "ended 5 times in a row: out of")])
def test_a_driver_that_dies_is_started_five_times_and_what_fails_is_said(tmp_path: Path, how: str, said: str) -> None:
    (tmp_path / how).touch()
    link = link_to(tmp_path)
    with pytest.raises(RecomposeError, match=said):
        run(link)
    assert said in str(link.failed)
    link.finish()


def test_a_driver_that_cannot_be_started_is_a_failure(tmp_path: Path) -> None:
    setup = Setup("doubler", StreamSource("double"), None, str(tmp_path), once=True, query="q")
    link = SparkLink(setup, read, clock=monotonic, command=("/nowhere/python",))
    with pytest.raises(RecomposeError, match=r"5 times in a row: it could not be started: .*'/nowhere/python'"):
        run(link)
    link.finish()


@pytest.mark.logs_errors("the link to the Spark driver failed")
def test_what_ends_the_link_s_thread_is_told_to_those_who_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.tempfile, "TemporaryFile", no_room)
    link = link_to(tmp_path)
    with pytest.raises(RecomposeError, match=r"the link to the Spark driver failed: OSError: .*No space left"):
        run(link)
    link.finish()


def test_a_stop_ends_the_driver_wherever_it_is(tmp_path: Path) -> None:
    link = link_to(tmp_path, rows=10_000)
    arrivals = iter(link)
    for _ in range(5):
        link.take(ResultBatch(0, [next(arrivals).value]))
    link.close()
    assert next(arrivals, None) is None
    assert link.status()["driver_pid"]
    link.finish()
    assert link.status()["driver_pid"] is None


def test_a_path_that_is_too_long_for_a_socket_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecomposeError, match="TMPDIR should name a folder with a short path"):
        Door(f"{tmp_path}/{'long' * 30}", lambda _: None)


# --- the book: every result becomes durable once, in order ------------------------------------------------------------


FIRST = Key("q", 0)


def test_rows_are_taken_once_in_order() -> None:
    ledger = Ledger()
    assert ledger.begin(FIRST, 0) == 0
    assert ledger.take(FIRST, 0)
    assert not ledger.take(FIRST, 0)
    assert not ledger.take(FIRST, 2)
    assert not ledger.take(Key("q", 1), 1)
    assert ledger.take(FIRST, 1)


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger()
    ledger.begin(FIRST, 0)
    return ledger


def test_a_partition_has_its_turn_when_those_before_are_there(ledger: Ledger) -> None:
    assert (ledger.first_of(0), ledger.first_of(1)) == (0, None)
    ledger.delivered(0, 7)
    ledger.delivered(0, 7)
    ledger.delivered(2, 9)
    assert [ledger.first_of(partition) for partition in range(3)] == [0, 7, None]
    ledger.begin(FIRST, 0)
    assert ledger.first_of(1) is None, "another driver delivers all partitions again"


def test_results_of_a_batch_that_was_given_up_are_nobodys(ledger: Ledger) -> None:
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
