"""Telemetry of items in bundles: a row an item, with the size of the batch it ends and its share of stage times."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from datapipe.telemetry.writer import Origin
from profiler.snapshot import StageTiming
from runtime.dispatch.outcomes import Delivered, Outcome, Shed, TaskTimed
from service.runner.telemetry.accounts import WallClock
from service.runner.telemetry.telemetry import Telemetry, Timings
from service.schemas.spec import TelemetrySpec

ROWS = ("serial", "outcome", "composition", "batch")


def timed(serial: int, items: int, **walls_s: float) -> TaskTimed:
    timings = tuple(StageTiming(stage, wall_s, wall_s / 2) for stage, wall_s in walls_s.items())
    return TaskTimed(1.0, "c", timings, None, serial=serial, items=items)


def delivered(serial: int, count: int, error: str | None = None) -> Delivered:
    read_s = tuple(serial + item / 10 for item in range(count))
    return Delivered(9.0, serial, read_s, 2.0, "c", error=error, due_s=tuple(at_s - 0.5 for at_s in read_s))


def written(folder: Path, *outcomes: Outcome) -> list[dict[str, Any]]:
    telemetry = Telemetry(TelemetrySpec(folder=str(folder)), Origin("a", "r"), WallClock(1000.0))
    for outcome in outcomes:
        telemetry.observe(outcome)
    telemetry.close()
    status = telemetry.status()
    (path,) = (folder / "items").glob("*.parquet")
    rows: list[dict[str, Any]] = pq.read_table(path, partitioning=None).to_pylist()
    assert (status.written, status.lost, status.buffered) == (len(rows), 0, 0)
    return rows


def at(second: float) -> datetime:
    return datetime.fromtimestamp(1000.0 + second, UTC)


def test_a_bundle_is_as_many_rows_with_their_own_times(tmp_path: Path) -> None:
    rows = written(tmp_path, timed(0, 3, s1=0.3, s2=0.6), timed(3, 1, s1=0.1), delivered(0, 3), delivered(3, 1))
    assert [tuple(row[name] for name in ROWS) for row in rows] == [
        (0, "delivered", "c", 0), (1, "delivered", "c", 0), (2, "delivered", "c", 3), (3, "delivered", "c", 1),
    ]  # fmt: skip
    assert [row["read"] for row in rows] == [at(0), at(0.1), at(0.2), at(3)]
    assert [row["arrived"] for row in rows] == [at(-0.5), at(-0.4), at(-0.3), at(2.5)]
    assert {row["delivered"] for row in rows} == {at(9)}
    shares = [{stage["stage"]: round(stage["wall_ns"] / 1e9, 6) for stage in row["stages"]} for row in rows]
    assert shares == [{"s1": 0.1, "s2": 0.2}] * 3 + [{"s1": 0.1}]


def test_a_bundle_that_was_taken_apart_on_its_way(tmp_path: Path) -> None:
    parts = [timed(0, 1, s2=0.2), timed(2, 2, s2=0.6)]
    out = [delivered(0, 1), delivered(1, 1, error="no"), delivered(2, 2), Shed(9.0, 4, (4.0, 4.5))]
    rows = written(tmp_path, timed(0, 4, s1=0.4), *parts, *out)
    assert [tuple(row[name] for name in ROWS) for row in rows] == [
        (0, "delivered", "c", 1), (1, "failed", "c", 1), (2, "delivered", "c", 0), (3, "delivered", "c", 2),
        (4, "shed", "", 0), (5, "shed", "", 2),
    ]  # fmt: skip
    stages = [[(each["stage"], round(each["wall_ns"] / 1e9, 6)) for each in row["stages"]] for row in rows]
    whole = ("s1", 0.1)
    assert stages == [[whole, ("s2", 0.2)], [whole], [whole, ("s2", 0.3)], [whole, ("s2", 0.3)], [], []]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12)), max_size=20), st.data())
def test_runs_of_timings_say_the_same_as_a_list_an_item(tasks: list[tuple[int, int]], data: st.DataObject) -> None:
    timings, each = Timings(), dict[int, list[Any]]()
    for number, (serial, count) in enumerate(tasks):
        timings.add(serial, count, [StageTiming(f"s{number}", float(count), 0.0)])
        for item in range(serial, serial + count):
            each.setdefault(item, []).extend((f"s{number}", 1.0, 0.0))
    serial = 0
    while serial < 50:
        count = data.draw(st.integers(1, 20))
        told = [shares for items, shares in timings.pop(serial, count) for _ in range(items)]
        assert told == [tuple(each.get(item, ())) for item in range(serial, serial + count)]
        serial += count
    assert timings.pop(0, 60) == [(60, ())]
