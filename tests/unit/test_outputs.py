"""Items of several values, or none: on the wire, in files, in what is kept for readers, in tables; disks that fill."""

import csv
import json
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from apps.contract import App, Outputs
from apps.output_file import OutputFailed, OutputFile
from apps.video_out import Shown, video_output
from compositions.errors import RecomposeError
from compositions.model import Stage
from datapipe.spark.query import row_for_each_value
from runtime.dispatch.outcomes import Delivered
from runtime.transport.values import pickled, unpickled
from service.runner.rpc.requests import ReadResults
from service.runner.rpc.window import Window
from service.runner.wiring.result_buffer import ResultBatch, ResultBuffer
from service.runner.wiring.sink import ResultSink
from service.schemas.base import plain
from service.schemas.refusals import ResultsGoneError

VALUES = [1, Outputs(), Outputs(["a", None]), [2], Outputs([Outputs])]
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("values", [VALUES[:4], VALUES, [Outputs()], [Outputs([1])], [Outputs(), Outputs()]])
def test_they_come_back_as_they_went(values: list[Any]) -> None:
    back = unpickled(pickled(values), ())
    assert back == values
    assert [type(value) for value in back] == [type(value) for value in values]
    assert unpickled(pickled(values), (), 1, 3) == values[1:3]


class Doubled(App):
    name = "doubled"

    def encode_result(self, value: int) -> int:
        if value == 13:
            raise RecomposeError("13 is not written")
        return value * 2


def delivered(*values: Any, serial: int = 0) -> Delivered:
    return Delivered(0.0, serial, (0.0,) * len(values), 0.0, "one", payload=list(values))


def as_it_is(payload: Any, start: int, stop: int) -> Any:
    return payload[start:stop]


def written(path: Path, *values: Any) -> tuple[ResultSink, list[Any]]:
    """Return a sink that has got these values, and what is in its file."""
    out = ResultSink(Doubled(), as_it_is, str(path))
    out.take(delivered(*values))
    out.close()
    return out, [json.loads(line) for line in path.read_text().splitlines()]


def test_a_file_has_a_row_for_each_value(tmp_path: Path) -> None:
    out, rows = written(tmp_path / "out", 5, Outputs([6, 7]), Outputs(), Outputs([8]))
    assert rows == [
        {"serial": 0, "value": 10},
        {"serial": 1, "part": 0, "value": 12},
        {"serial": 1, "part": 1, "value": 14},
        {"serial": 3, "part": 0, "value": 16},
    ]
    assert [plain(result) for result in out.buffer] == rows
    assert (out.next_serial, out.lost, out.misordered) == (4, 0, 0)


def test_a_value_that_cannot_be_written_is_a_fault_of_its_item(tmp_path: Path) -> None:
    out, (first, second) = written(tmp_path / "out", Outputs([1, 13]), Outputs([2]))
    assert "13 is not written" in first["error"]
    assert second == {"serial": 1, "part": 0, "value": 4}
    assert out.unwritten == 1


def window(most: int, out: int, *runs: ResultBatch) -> Window:
    rows = ResultBuffer(most)
    for run in runs:
        rows.add(run)
    return Window("r", rows, out, out, rows.since)


def serials(window: Window, after: int | None, limit: int = 100) -> list[tuple[int, int | None]]:
    return [(row.serial, row.part) for row in window.read(ReadResults(after, limit))]


def test_a_page_ends_with_an_item() -> None:
    rows = window(100, 4, ResultBatch(0, [Outputs([1, 2, 3]), Outputs(), 4]), ResultBatch(3, [Outputs([5, 6])]))
    assert serials(rows, None, 2) == [(0, 0), (0, 1), (0, 2)]
    assert serials(rows, 0, 1) == [(2, None)]
    assert serials(rows, 2, 1) == [(3, 0), (3, 1)]
    assert serials(rows, 3) == []


def test_items_without_values_are_no_gap_for_readers() -> None:
    empty = (ResultBatch(serial, [Outputs()] * 10) for serial in range(1, 1000, 10))
    rows = window(3, 1002, ResultBatch(0, [1]), *empty, ResultBatch(1001, [2]))
    assert serials(rows, 0) == [(1001, None)]
    assert serials(window(3, 50, ResultBatch(0, [Outputs()] * 50)), 20) == []


def test_what_fell_out_is_told() -> None:
    rows = window(2, 4, ResultBatch(0, [Outputs([1, 2])]), ResultBatch(1, [Outputs()]), ResultBatch(2, [3, 4]))
    with pytest.raises(ResultsGoneError, match="results 0 to 0 are gone"):
        serials(rows, -1)
    assert serials(rows, 0) == [(2, None), (3, None)]


def test_a_table_has_a_row_for_each_value() -> None:
    results = ['{"value": 1}', '{"values": [{"a": 1}, "x"]}', '{"values": []}', '{"error": "no"}']
    rows = row_for_each_value(range(7, 11), results).to_pylist()
    seven, *eight, ten = [(row["row"], row["part"], row["value"], row["error"]) for row in rows]
    assert (seven, ten) == ((7, None, "1", None), (10, None, None, "no"))
    assert eight == [(8, 0, '{"a": 1}', None), (8, 1, "x", None)]
    assert row_for_each_value([0], ['{"values": []}']).num_rows == 0


# --- outputs on a disk that fills: the run ends with a sentence, and what is there is whole ---------------------------


@contextmanager
def no_file_above(limit: int) -> Iterator[None]:
    """Let no file become larger: writing on fails as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_video_that_does_not_fit_is_told_while_it_is_written(tmp_path: Path) -> None:
    out = tmp_path / "x.avi"
    noise = np.random.default_rng(1).integers(0, 255, (64, 64, 3), np.uint8)
    output = video_output(out, ("frame", "what"), lambda number: Shown(noise, [[number, "a, b"]]))
    sentence = re.escape(f"{str(out)!r} cannot be written any further: the disk may be full")
    with no_file_above(500_000), pytest.raises(OutputFailed, match=sentence):
        _ = [output.write(number, number) for number in range(2000)]
    output.close()
    with out.with_suffix(".csv").open(newline="") as file:
        numbers = [int(row[0]) for row in list(csv.reader(file))[1:]]
    assert numbers == list(range(len(numbers)))


def test_a_record_that_does_not_fit_is_taken_back_and_the_file_stays_failed(tmp_path: Path) -> None:
    file, told = OutputFile(tmp_path / "x", buffer_bytes=50), []
    with no_file_above(45):
        for turn in range(9):
            try:
                file.add(b"%09d\n" % turn)
            except OutputFailed as error:
                told.append(str(error))
        file.close()
    assert (tmp_path / "x").read_text() == "".join(f"{turn:09d}\n" for turn in range(4))
    assert told == [told[0]] * 4, "from the sixth on"
    assert "the first 40 bytes are intact" in told[0]


def test_appending_goes_on_after_what_is_there(tmp_path: Path) -> None:
    for text in (b"one\n", b"two\n"):
        file = OutputFile(tmp_path / "x", append=True)
        file.add(text)
        file.close()
    assert (tmp_path / "x").read_bytes() == b"one\ntwo\n"


class Plain(App):
    name = "plain"
    stages = (Stage("any"),)


class Broken(Plain):
    """Its output fails as a file does, by an OSError of its own."""

    def open_output(self, path: Path) -> Any:
        return MagicMock(**{"write.side_effect": OSError(28, "No space left on device")})


def deliver(sink: ResultSink, value: Any) -> None:
    sink.take(delivered(value))
    sink.flush()


@pytest.mark.parametrize(("app", "dead"), [(Plain(), None), (Plain(), "/dev/full"), (Broken(), None)])
def test_what_cannot_be_stored_is_the_outputs_fault_not_the_items(app: App, dead: str | None) -> None:
    sink = ResultSink(app, as_it_is, None if dead else "/dev/full", dead)
    with pytest.raises(OutputFailed, match="No space left on device"):
        deliver(sink, object() if dead else 1)
    sink.close()


def test_all_files_are_closed_though_one_does_not_take_the_rest(tmp_path: Path) -> None:
    sink = ResultSink(Plain(), as_it_is, "/dev/full", str(tmp_path / "dead"))
    sink.take(delivered(object()))
    with pytest.raises(OutputFailed):
        sink.close()
    assert json.loads((tmp_path / "dead").read_text())["serial"] == 0
