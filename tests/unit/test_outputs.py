"""Items of several values, or none: on the wire, in files, in what is kept for readers, in tables."""

import json
from pathlib import Path
from typing import Any

import pytest

from apps.contract import App, Outputs
from compositions.errors import RecomposeError
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


def sink(path: Path | None = None) -> ResultSink:
    return ResultSink(Doubled(), lambda payload, start, stop: payload[start:stop], str(path) if path else None)


def test_a_file_has_a_row_for_each_value(tmp_path: Path) -> None:
    out = sink(tmp_path / "out")
    out.take(delivered(5, Outputs([6, 7]), Outputs(), Outputs([8])))
    out.close()
    rows = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert rows == [
        {"serial": 0, "value": 10},
        {"serial": 1, "part": 0, "value": 12},
        {"serial": 1, "part": 1, "value": 14},
        {"serial": 3, "part": 0, "value": 16},
    ]
    assert [plain(result) for result in out.buffer] == rows
    assert (out.next_serial, out.lost, out.misordered) == (4, 0, 0)


def test_a_value_that_cannot_be_written_is_a_fault_of_its_item(tmp_path: Path) -> None:
    out = sink(tmp_path / "out")
    out.take(delivered(Outputs([1, 13]), Outputs([2])))
    out.close()
    first, second = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert "13 is not written" in first["error"]
    assert second == {"serial": 1, "part": 0, "value": 4}
    assert out.unwritten == 1


def kept(most: int, *runs: ResultBatch) -> ResultBuffer:
    rows = ResultBuffer(most)
    for run in runs:
        rows.add(run)
    return rows


def serials(window: Window, after: int | None, limit: int = 100) -> list[tuple[int, int | None]]:
    return [(row.serial, row.part) for row in window.read(ReadResults(after, limit))]


def window(rows: ResultBuffer, out: int) -> Window:
    return Window("r", rows, out, out, rows.since)


def test_a_page_ends_with_an_item() -> None:
    rows = window(kept(100, ResultBatch(0, [Outputs([1, 2, 3]), Outputs(), 4]), ResultBatch(3, [Outputs([5, 6])])), 4)
    assert serials(rows, None, 2) == [(0, 0), (0, 1), (0, 2)]
    assert serials(rows, 0, 1) == [(2, None)]
    assert serials(rows, 2, 1) == [(3, 0), (3, 1)]
    assert serials(rows, 3) == []


def test_items_without_values_are_no_gap_for_readers() -> None:
    rows = kept(
        3,
        ResultBatch(0, [1]),
        *(ResultBatch(serial, [Outputs()] * 10) for serial in range(1, 1000, 10)),
        ResultBatch(1001, [2]),
    )
    assert serials(window(rows, 1002), 0) == [(1001, None)]
    assert serials(window(kept(3, ResultBatch(0, [Outputs()] * 50)), 50), 20) == []


def test_what_fell_out_is_told() -> None:
    rows = kept(2, ResultBatch(0, [Outputs([1, 2])]), ResultBatch(1, [Outputs()]), ResultBatch(2, [3, 4]))
    with pytest.raises(ResultsGoneError, match="results 0 to 0 are gone"):
        serials(window(rows, 4), -1)
    assert serials(window(rows, 4), 0) == [(2, None), (3, None)]


def test_a_table_has_a_row_for_each_value() -> None:
    results = ['{"value": 1}', '{"values": [{"a": 1}, "x"]}', '{"values": []}', '{"error": "no"}']
    rows = row_for_each_value(range(7, 11), results).to_pylist()
    assert [(row["row"], row["part"], row["value"], row["error"]) for row in rows] == [
        (7, None, "1", None),
        (8, 0, '{"a": 1}', None),
        (8, 1, "x", None),
        (10, None, None, "no"),
    ]
    assert row_for_each_value([0], ['{"values": []}']).num_rows == 0
