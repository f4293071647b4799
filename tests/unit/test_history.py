"""Samples, changes of the bundle size, marks and results: what is kept is bounded, and how it is read."""

import json
import pickle
from contextlib import nullcontext, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps import registry
from apps.contract import App, Outputs
from compositions.model import Stage
from control.bundles.bundle_size import SizeRun, SizeRuns
from control.decisions import State
from datapipe.sources.portions import Closing, Counted, joined, part_of
from runtime.dispatch.outcomes import Delivered, Shed
from runtime.transport.values import Broken
from service.runner.rpc.requests import ReadHistory, ReadResults
from service.runner.rpc.window import Window
from service.runner.telemetry.record import KEPT_S, History
from service.runner.wiring.checkpointer import Tracker
from service.runner.wiring.result_buffer import JSON, JsonForm, ResultBatch, ResultBuffer
from service.runner.wiring.sink import ResultSink
from service.schemas.base import plain
from service.schemas.refusals import ResultsGoneError
from service.schemas.results import Result
from service.schemas.spec import RunSpec
from service.schemas.status import Rates, Sample, resting

UNKNOWN = Sample.of(resting(registry.find("synthetic"), State.STARTING, RunSpec(app="synthetic"), None), "0")


def sample(at_s: float) -> Sample:
    return UNKNOWN.model_copy(update={"at": str(at_s)})


def filled(seconds: float, step_s: float) -> History:
    history = History()
    for k in range(int(seconds / step_s)):
        history.record(k * step_s, lambda k=k: sample(k * step_s))  # type: ignore[misc]
    return history


def test_one_sample_a_second_however_often_it_is_asked_also_after_a_pause() -> None:
    samples = filled(10, 0.25).since(0)
    assert [float(each.at) for each in samples] == [float(k) for k in range(10)]
    history = History()
    for at_s in (0.0, 50.0, 50.5, 51.0, 51.5, 52.0):
        history.record(at_s, lambda at_s=at_s: sample(at_s))  # type: ignore[misc]
    assert [float(each.at) for each in history.since(0)] == [0.0, 50.0, 51.0, 52.0]


def test_only_what_is_asked_for_and_never_more_than_an_hour() -> None:
    history = filled(KEPT_S + 500, 1.0)
    assert len(history.since(0)) == KEPT_S
    assert [float(each.at) for each in history.since(KEPT_S + 490)] == [float(KEPT_S + k) for k in range(490, 500)]


@pytest.mark.parametrize(("count", "most"), [(0, 5), (1, 5), (5, 5), (6, 5), (300, 100), (301, 100), (899, 2)])
def test_of_many_samples_evenly_many_are_told_the_latest_among_them(count: int, most: int) -> None:
    samples = filled(count, 1.0).since(0)
    told = ReadHistory(300.0, most).thin(samples)
    assert len(told) <= most
    assert told[-1:] == samples[-1:]
    times = [float(each.at) for each in told]
    assert len({later - earlier for earlier, later in pairwise(times)}) <= 1
    assert ReadHistory(300.0).thin(samples) == samples


def test_rates_are_columns_and_where_nothing_is_known_empty() -> None:
    known = sample(7.0).model_copy(update={"offered_per_s": 10.0, "throughput_per_s": 9.0})
    columns = {"app": "a", "at": ["7.0"], "offered_per_s": [10.0], "delivered_per_s": [9.0]}
    assert plain(Rates.of("a", [known])) == columns
    assert plain(Rates.of("a", [])) == {"app": "a", "at": [], "offered_per_s": [], "delivered_per_s": []}


# Changes of the bundle size are kept one entry for many.


def test_what_does_not_change_is_not_kept_and_changes_that_follow_each_other_are_one_entry() -> None:
    runs = SizeRuns()
    for _ in range(5):
        runs.note(0.0, "auto", 1, "first")
    assert (list(runs.kept), runs.used) == ([], [1])
    for turn in range(1000):  # a hundred a second
        runs.note(1.0 + turn / 100, "pid", 5 + turn % 7, f"turn {turn}")
    assert list(runs.kept) == [SizeRun("pid", 1, 5 + 999 % 7, "turn 999", 1.0, 10.99, 1, 11, 1000)]
    assert runs.used == [1, 5, 6, 7, 8, 9, 10, 11]


def test_a_pause_another_controller_and_a_minute_begin_another_entry() -> None:
    runs = SizeRuns()
    runs.note(0.0, "auto", 1, "first")
    runs.note(1.0, "auto", 8, "a hop shows")
    runs.note(12.0, "auto", 4, "a pause of more than ten seconds")
    runs.note(12.5, "pid", 4, "the same size, chosen by another")
    assert [(each.controller, each.from_items, each.to_items) for each in runs.kept] == [
        ("auto", 1, 8), ("auto", 8, 4), ("pid", 4, 4),
    ]  # fmt: skip
    for second in range(13, 200):
        runs.note(float(second), "pid", second, "every second")
    assert [each.count for each in runs.kept] == [1, 1, 61, 60, 60, 7]

    for turn in range(3 * SizeRuns.KEPT):
        runs.note(200 + turn * 20.0, "auto", 1 + turn % 2, "")
    assert len(runs.kept) == SizeRuns.KEPT


@given(st.integers(0, 3), st.integers(0, 50), st.integers(0, 30), st.integers(0, 40), st.integers(0, 40))
def test_counted_marks_are_those_written_out(times: int, first: int, count: int, begin: int, end: int) -> None:
    marks = Counted("items", times, range(first, first + count))
    written = tuple(("items", (times, number)) for number in range(first, first + count))
    assert (len(marks), tuple(marks)) == (count, written)
    assert tuple(part_of(marks, begin, end)) == part_of(written, begin, end)
    assert dict(part_of(marks, begin, end)) == dict(written[begin:end])


def test_what_is_over_is_over_behind_the_items_that_came_before() -> None:
    closing = Closing((("a", 1), ("b", 2)), frozenset({"x", "y"}))
    assert (len(closing), dict(closing)) == (2, {"a": 1, "b": 2, "x": None, "y": None})
    assert part_of(closing, 0, 1) == (("a", 1),)
    assert part_of(closing, 1, 2) == Closing((("b", 2),), frozenset({"x", "y"}))
    later = (("x", 1),)
    assert dict(joined(closing, later)) == {"a": 1, "b": 2, "y": None, "x": 1}, "x began anew"
    assert dict(joined(later, closing)) == {"a": 1, "b": 2, "y": None, "x": None}
    assert joined(later, Counted("n", 0, range(1, 2))) == (("x", 1), ("n", (0, 1)))
    assert len(joined(Counted("n", 0, range(1, 3)), closing)) == 4


def test_of_positions_is_told_what_changed_and_each_once() -> None:
    tracker = Tracker()
    tracker.admitted(0, (("a", 1), ("b", 1), ("a", 2)))
    tracker.admitted(3, Closing((("c", 1), ("c", 2)), frozenset({"a"})))
    assert tracker.behind(2) == {"a": 1, "b": 1}
    assert tracker.behind(4) == {"a": 2, "c": 1}
    assert tracker.behind(4) == {}
    assert tracker.behind(5) == {"c": 2, "a": None}


# --- results, a bundle at a time: what cannot be written, and how a reader goes on --------------------------------


NUMBERS = st.booleans() | st.integers() | st.floats()


class Plain(App):
    name = "plain"
    stages = (Stage("s"),)


class Doubles(Plain):
    """Raises for a negative number, and makes no JSON of 13."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def encode_result(self, value: int) -> Any:
        self.asked.append(value)
        if value < 0:
            raise ValueError(f"{value} is below zero")
        return {value} if value == 13 else 2 * value


def bundle(serial: int, *values: Any) -> Delivered:
    return Delivered(1.0, serial, (0.0,) * len(values), 0.5, "c", ["before", *values, "after"], start=1)


def sink_of(app: App, out: Path | None = None, dead: Path | None = None) -> ResultSink:
    paths = (None if path is None else str(path) for path in (out, dead))
    return ResultSink(app, lambda payload, start, stop: payload[start:stop], *paths)


def told(sink: ResultSink) -> list[tuple[int, Any, str | None]]:
    return [(result.serial, result.value, result.error) for result in sink.buffer]


def test_a_bundle_is_as_many_results() -> None:
    sink = sink_of(Plain())
    sink.take(bundle(0, "a", None, [1, 2]))
    sink.take(Shed(1.0, 3, (0.0, 0.0)))
    sink.take(bundle(5, "b"))
    shed = "shed to make room for newer items"
    errors = [None, None, None, shed, shed, None]
    assert told(sink) == [*zip(range(6), ["a", None, [1, 2], None, None, "b"], errors, strict=True)]
    assert (sink.next_serial, sink.lost, sink.misordered, sink.unwritten) == (6, 0, 0, 0)


def test_what_cannot_be_written_concerns_its_item_alone_and_every_value_is_encoded_once(tmp_path: Path) -> None:
    app = Doubles()
    sink = sink_of(app, tmp_path / "out", tmp_path / "dead")
    sink.take(bundle(0, 1, -5, 13, 4, Broken("no such class"), 6))
    sink.close()
    cure = "let encode_result of app 'plain' return plain JSON data"
    whys = ["ValueError: -5 is below zero", f"TypeError: Object of type set is not JSON serializable; {cure}"]
    errors = [f"the result cannot be written: {why}" for why in [*whys, "no such class"]]
    assert told(sink) == [
        (0, 2, None), (1, None, errors[0]), (2, None, errors[1]), (3, 8, None), (4, None, errors[2]), (5, 12, None),
    ]  # fmt: skip
    assert sink.unwritten == 3
    assert sink.first_error == f"item 1: {errors[0]}"
    assert app.asked == [1, -5, 13, 4, 6]
    rows = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [row["serial"] for row in rows] == list(range(6))
    assert rows[0] == {"serial": 0, "value": 2}
    assert rows[1] == {"serial": 1, "error": errors[0]}
    assert [json.loads(line)["serial"] for line in (tmp_path / "dead").read_text().splitlines()] == [1, 2, 4]


@pytest.mark.parametrize("value", [float("nan"), "\ud800", b"bytes", {1: {2}}])
def test_values_that_are_no_json_text(value: Any, tmp_path: Path) -> None:
    sink = sink_of(Plain(), tmp_path / "out")
    sink.take(bundle(0, 1, value, "ü"))
    sink.close()
    assert [result.error is None for result in sink.buffer] == [True, False, True]
    assert (tmp_path / "out").read_text().splitlines()[2] == '{"serial": 2, "value": "ü"}'


def test_an_error_with_half_a_character_is_told_as_others_are(tmp_path: Path) -> None:
    class Refuses(Plain):
        def encode_result(self, value: str) -> Any:
            raise ValueError(f"{value} is odd")

    sink = sink_of(Refuses(), tmp_path / "out", tmp_path / "dead")
    sink.take(Delivered(1.0, 0, (0.0,), 0.5, "c", None, error="\ud800 broke"))
    sink.take(bundle(1, "\ud800"))
    sink.close()
    errors = [r"\ud800 broke", r"the result cannot be written: ValueError: \ud800 is odd"]
    assert [error for _, _, error in told(sink)] == errors
    for file in ("out", "dead"):
        assert [json.loads(line)["error"] for line in (tmp_path / file).read_text().splitlines()] == errors


@given(
    st.lists(NUMBERS | st.sampled_from([10**400, 10**5000, 1.7e308]), min_size=1)
    | st.lists(st.lists(NUMBERS | st.sampled_from([10**400, "text"])), min_size=1)
)
def test_numbers_and_vectors_are_as_good_as_their_text(values: list[Any]) -> None:
    formed = JsonForm(Plain()).of(values)
    assert list(formed.faults) == [place for place, value in enumerate(values) if not has_text(value)]
    assert formed.values == [value if place not in formed.faults else None for place, value in enumerate(values)]
    assert formed.size_bytes > 0
    assert not formed.several


def has_text(value: Any) -> bool:
    with suppress(ValueError):
        return bool(JSON(value))
    return False


def test_several_values_of_an_item_are_seen_where_this_process_has_made_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those are that a journal of an earlier version has: pickle made them, and not a call."""
    monkeypatch.setattr(Outputs, "made", False)
    found = Outputs.__new__(Outputs)
    found += [1, 2]
    assert [(row["part"], row["value"]) for row in ResultBatch(7, [found]).rows()] == [(0, 1), (1, 2)]


@given(st.lists(st.integers(1, 7), max_size=30), st.integers(1, 12), st.integers(-40, 40), st.integers(0, 9))
def test_kept_is_the_end_of_what_came_however_it_is_read(counts: list[int], most: int, begin: int, limit: int) -> None:
    kept, all_ = ResultBuffer(most), list[Result]()
    for count in counts:
        run = ResultBatch(len(all_), [f"v{len(all_) + each}" for each in range(count)])
        kept.add(run)
        all_ += [Result(serial=run.first + place, value=value) for place, value in enumerate(run.values)]
    assert min(most, len(all_)) <= len(kept) <= most + max([*counts, 1]) - 1
    rest = all_[len(all_) - len(kept) :]
    assert list(kept) == rest
    assert kept[begin : begin + limit] == rest[begin : begin + limit]
    with nullcontext() if -len(rest) <= begin < len(rest) else pytest.raises(IndexError):
        assert kept[begin] == rest[begin]


def window(first: int = 5, last: int = 9, *, run: str | None = "b", given: int | None = 12) -> Window:
    return Window(run, [Result(serial=number) for number in range(first, last + 1)], last + 1, given)


def serials(found: Window, after: int | None, run: str | None = None, limit: int = 100) -> list[int]:
    return [each.serial for each in found.read(ReadResults(after, limit, run))]


def test_a_number_that_this_run_never_gave_is_another_run_s() -> None:
    with pytest.raises(ResultsGoneError) as gone:
        serials(window(), 12)
    told = pickle.loads(pickle.dumps(gone.value))
    assert (told.run, told.first, told.last) == ("b", 5, 9), "it comes from another process"
    assert serials(window(), 11) == [], "given, not delivered yet"
    assert serials(window(given=None), 500) == []
    assert serials(window(), 500, "b") == [], "whoever names the run knows what it waits for"


def test_a_run_that_has_delivered_nothing_yet() -> None:
    young = Window("b", given=0)
    assert serials(young, None) == serials(young, -1) == serials(young, -1, "b") == []
    with pytest.raises(ResultsGoneError, match="run b retains nothing yet") as gone:
        serials(young, 3, "a")
    assert (gone.value.run, gone.value.first, gone.value.last) == ("b", None, None)


def test_results_that_died_with_their_runner_are_gone_also_where_nothing_is_kept() -> None:
    lost = Window("b", (), out=20)
    with pytest.raises(ResultsGoneError, match="run b"):
        serials(lost, 7, "b")
    assert serials(lost, 19, "b") == []


@given(st.data())
def test_a_reader_gets_every_result_in_order_or_is_told(data: st.DataObject) -> None:
    """Items leave, old results fall out of the window, now and then the runner is another one; the reader asks."""
    run, out, size = 0, 0, data.draw(st.integers(1, 6))
    cursor, read = ReadResults(None, data.draw(st.integers(1, 4))), []
    for step in data.draw(st.lists(st.sampled_from(["deliver", "read", "restart"]), max_size=60)):
        if step == "deliver":
            out += 1
        elif step == "restart":
            run, out = run + 1, 0
        else:
            kept = [Result(serial=number) for number in range(max(0, out - size), out)]
            try:
                rows = Window(str(run), kept, out, out).read(cursor)
            except ResultsGoneError:
                cursor, read = ReadResults(None, cursor.limit), []
                continue
            read += [(each.run, each.serial) for each in rows]
            if rows:
                cursor = ReadResults(rows[-1].serial, cursor.limit, rows[-1].run)
        if read:
            first = read[0][1]
            assert read == [(read[0][0], number) for number in range(first, first + len(read))]
