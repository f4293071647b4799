"""``from recompose import run``: what a script or a notebook has of a run. Stages run in threads here."""

import itertools
import math
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

import recompose
from apps import event_time
from profiler.slo import parse_slo
from recompose import App, Options, RecomposeError, Result, RunFailed, Stage, StageKind, objective, pipeline, run
from tests.support.waiting import wait_until


def double(value: int) -> int:
    return 2 * value


def total(value: int, so_far: int | None) -> tuple[int, int]:
    so_far = (so_far or 0) + value
    return so_far, so_far


SUMS = pipeline(double, (Stage("total", StageKind.STATEFUL), total), name="sums")


class Scaled(App):
    name = "scaled"
    stages = (Stage("scale"),)

    class Factor(Options):
        factor: int = 3

    options_model = Factor

    def items(self, path: object) -> Iterator[int]:
        return iter([1, 2])

    def scale(self, value: int) -> int:
        return value * self.options.factor  # type: ignore[attr-defined]

    def from_json(self, value: object) -> object:
        if not isinstance(value, int):
            raise ValueError(f"{value!r} is no number")
        return value


def started(app: Any = SUMS, **given: Any) -> Any:
    return run(app, pool="local", progress=False, **given)


def test_results_come_in_order_and_each_once() -> None:
    live = started(source=range(500), slo="p95<=400ms")
    assert [each.value for each in itertools.islice(live, 3)] == [0, 2, 6]
    rest = list(live)
    assert [each.serial for each in rest] == list(range(3, 500))
    assert rest[-1].value == 2 * sum(range(500))
    assert live.summary().items.delivered == 500


def test_an_app_is_a_class_with_options_or_a_known_name() -> None:
    assert [each.value for each in started(Scaled, options={"factor": 5})] == [5, 10]
    assert len(list(started("synthetic", items=4, options={"total_ms": 1}))) == 4


def test_a_result_is_any_object_unless_it_is_written_as_json(tmp_path: Any) -> None:
    def several(value: int) -> Any:
        return [np.ones(3), datetime(2026, 1, 1), {1, 2}, b"x", float("nan")][value]

    values = [each.value for each in started(pipeline(several), source=range(5))]
    assert values[0].tolist() == [1.0, 1.0, 1.0]
    assert values[1:4] == [datetime(2026, 1, 1), {1, 2}, b"x"]
    assert math.isnan(values[4])
    got: list[Result] = []
    started(pipeline(several), source=range(3), sink=got.append).wait()
    assert [type(each.value) for each in got] == [np.ndarray, datetime, set]
    with pytest.raises(RunFailed, match="not JSON serializable"):
        started(pipeline(several), source=[0], sink=tmp_path / "out.jsonl").wait()


def test_a_pipeline_has_async_stages_stages_of_bundles_and_partitioned_ones_with_a_function_for_the_key() -> None:
    async def fetch(value: int) -> int:
        return value + 1

    def halve(values: list[int]) -> list[float]:
        return [value / 2 for value in values]

    def is_whole(value: float) -> bool:
        return value.is_integer()

    def count(value: float, seen: int | None) -> tuple[tuple[float, int], int]:
        return (value, (seen or 0) + 1), (seen or 0) + 1

    partitioned = Stage("count", StageKind.PARTITIONED), count, is_whole
    app = pipeline((Stage("fetch", concurrency=4), fetch), (Stage("halve", batch=True), halve), partitioned)
    assert [tuple(each.value) for each in started(app, source=range(4))] == [(0.5, 1), (1.0, 1), (1.5, 2), (2.0, 2)]


def test_names_of_event_time_are_those_of_the_package() -> None:
    assert all(getattr(recompose, name) is getattr(event_time, name) for name in event_time.__all__)


def test_values_of_one_item_are_rows_of_its_serial_number() -> None:
    def letters(text: str) -> Iterator[str]:
        yield from text

    rows = [(each.serial, each.part, each.value) for each in started(pipeline(letters), source=["ab", "", "c"])]
    assert rows == [(0, 0, "a"), (0, 1, "b"), (2, 0, "c")]


def test_who_does_not_read_holds_the_source_back() -> None:
    made = itertools.count()
    live = started(source=made)
    unread = live._unread
    first = next(iter(live))
    unread._most = 10
    wait_until(lambda: not unread.has_room and not live.status.in_flight)
    assert first.value == 0
    summary = live.stop()
    rest = [each.serial for each in live]
    assert rest == list(range(1, summary.items.accepted))
    assert next(made) - len(rest) < 5000, "read, and neither delivered nor waiting in a bounded buffer"


def test_a_function_gets_each_result_and_wait_waits_for_it() -> None:
    got: list[Result] = []
    live = started(source=range(50), sink=got.append)
    assert live.wait().items.delivered == 50
    assert [each.serial for each in got] == list(range(50))
    with pytest.raises(RecomposeError, match="go to its sink"):
        next(iter(live))


def test_a_file_gets_lines(tmp_path: Any) -> None:
    started(source=[1, 2], sink=tmp_path / "out.jsonl").wait()
    assert (tmp_path / "out.jsonl").read_text() == '{"serial": 0, "value": 2}\n{"serial": 1, "value": 6}\n'


def test_what_nobody_reads_is_dropped_by_wait() -> None:
    live = started(source=range(30))
    assert live.wait().items.delivered == 30
    assert list(live) == []


def test_items_are_pushed_until_it_is_left() -> None:
    with started(Scaled, source="push") as live:
        assert [live.push(each) for each in (4, 5)] == [0, 1]
        with pytest.raises(RecomposeError, match="'x' is no number"):
            live.push("x")
        assert [each.value for each in itertools.islice(live, 2)] == [12, 15]
    assert live.status.state == "stopped"


def test_it_shows_what_it_does_and_takes_another_objective() -> None:
    with started(Scaled, source="push", slo="latency<=50ms") as live:
        live.set_slo(objective("throughput=5/s"))
        assert live.status.requested.slo.target == 5
        assert repr(live).startswith("<run of 'scaled': ")
        assert "<th scope='row'>SLO</th><td>throughput 5 /s (bound 4 /s)" in live._repr_html_()


def test_a_run_in_which_every_item_fails_says_why() -> None:
    def breaks(value: int) -> int:
        raise KeyError(value)

    with pytest.raises(RunFailed, match="all 2 items failed; the first: KeyError: 1") as told:
        list(started(pipeline(breaks), source=[1, 2]))
    assert "in breaks" in told.value.__notes__[0]


def test_an_item_that_fails_is_a_result_with_an_error() -> None:
    def inverse(value: int) -> float:
        return 1 / value

    well, failed = started(pipeline(inverse), source=[1, 0])
    assert (well.value, "ZeroDivisionError" in failed.error) == (1.0, True)


@pytest.mark.logs_errors("the source failed")
def test_a_source_or_a_sink_that_raises_ends_the_run_with_its_reason() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise OSError("the cable is out")

    with pytest.raises(RunFailed, match="OSError: the cable is out"):
        list(started(source=broken()))
    with pytest.raises(RunFailed, match="the sink raised OSError: no space left"):
        started(source=itertools.count(), sink=MagicMock(side_effect=OSError("no space left"))).wait()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"slo": "throughput<=5/s"}, "a throughput is ≥ its target, not <="),
        ({"slo": "p95<=fast"}, "'fast' is not a number with a unit"),
        ({"rat": 5}, r"run has no argument 'rat' \(did you mean 'rate'\?\)"),
        ({"colour": 5}, "run has no argument 'colour'; accepted are source, slo, sink, rate, items"),
        ({"rate": -1}, "^rate = -1: must be greater than 0"),
        ({"batch": 0}, r"^batch = 0: must be \"auto\""),
        ({"source": 5}, "source = 5: must be text such as replay:FILE, a path, or an iterable"),
        ({"slo": "throughput=input_rate"}, "the source has no rate of its own .* set a rate, or ask for fastest"),
        ({"source": "video"}, "source video needs a path"),
        ({"source": "nowhere.txt"}, "'nowhere.txt' does not exist"),
        ({"composition": "huge"}, "unknown composition 'huge'"),
    ],
)
def test_what_cannot_run_is_refused_in_a_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RecomposeError, match=sentence):
        started(**{"source": [1], **given})


def test_what_is_no_app_is_refused() -> None:
    with pytest.raises(RecomposeError, match="5 is no app; give a subclass of App"):
        run(5)  # type: ignore[arg-type]
    with pytest.raises(RecomposeError, match="app App: name is None"):
        run(App)


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        ((), "stages is"),
        ((lambda value: value,), "has no name for its stage"),
        ((double, double), "2 stages are named 'double'"),
        (((Stage("total"), double, double, double),), "is no stage; give"),
        ((("total", double),), "is no stage; give"),
        (((Stage("total", StageKind.PARTITIONED), total),), "needs a method total_key"),
        (((Stage("total", StageKind.STATEFUL), double),), r"must take \(self, value, state\)"),
    ],
)
def test_what_is_no_pipeline_is_refused(steps: Any, sentence: str) -> None:
    with pytest.raises(RecomposeError, match=sentence):
        pipeline(*steps)


def test_objectives_are_those_of_the_command_line() -> None:
    assert objective("p95<=400ms") == parse_slo("p95=400ms")
    assert objective("p95<=400ms", threshold=0.0).threshold == 0.0
    both = objective("latency<=400ms", "throughput>=10/s")
    assert [each.target for each in both.each] == [400.0, 10.0]
    live = started(source=[1], slo=["latency<=400ms", "throughput>=1/s"])
    assert len(live.status.requested.slo.objectives) == 2
    assert len(list(live)) == 1


def test_an_app_loads_without_what_serves_and_runs_it() -> None:
    loaded = "[name for name in ('ray', 'service', 'rich') if name in sys.modules]"
    told = f"import sys; from recompose import App, Stage; print({loaded})"
    assert subprocess.check_output([sys.executable, "-c", told], text=True) == "[]\n"
