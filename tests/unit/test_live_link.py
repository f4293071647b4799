"""The runner's end of a live Spark source, with a driver that is a process, but no Spark."""

import json
import sys
from multiprocessing.connection import Client
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from compositions.errors import RecomposeError
from datapipe.spark import process as module
from datapipe.spark.door import Door
from datapipe.spark.link import SparkLink
from datapipe.spark.messages import Deliver, Fetch, Setup, StreamSource, TableSink
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


WANTED = [
    {"value": 2 * n} if n != 13 else {"error": "doubler does not take this row: 13 is unlucky"} for n in range(40)
]


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


@pytest.mark.parametrize(
    ("how", "said"), [("fails", "no such format"), ("crashes", "the Spark driver ended 5 times in a row: out of order")]
)
def test_what_cannot_work_is_said_and_a_driver_that_dies_is_started_five_times(
    tmp_path: Path, how: str, said: str
) -> None:
    (tmp_path / how).touch()
    link = link_to(tmp_path)
    with pytest.raises(RecomposeError, match=said):
        run(link)
    assert link.failed == said
    link.finish()


def test_a_driver_that_cannot_be_started_is_a_failure(tmp_path: Path) -> None:
    setup = Setup("doubler", StreamSource("double"), None, str(tmp_path), once=True, query="q")
    link = SparkLink(setup, read, clock=monotonic, command=("/nowhere/python",))
    with pytest.raises(RecomposeError, match=r"5 times in a row: it could not be started: .*'/nowhere/python'"):
        run(link)
    link.finish()


@pytest.mark.logs_errors("the link to the Spark driver failed")
def test_whatever_ends_the_link_s_thread_is_told_to_those_who_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    pid = link.status()["driver_pid"]
    assert pid is not None
    link.finish()
    assert link.status()["driver_pid"] is None


def test_a_path_that_is_too_long_for_a_socket_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecomposeError, match="TMPDIR should name a folder with a short path"):
        Door(f"{tmp_path}/{'long' * 30}", lambda _: None)
