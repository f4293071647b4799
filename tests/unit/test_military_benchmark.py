"""What the benchmark of the Military Server makes of what it measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.benchmarks.military_server import Point, fitted, law, law_rows, shape
from lab.papers.leonarczyk.measured import read_law


def measured(width: int, a_ms: float, b_ms: float, in_flight: int = 4) -> list[Point]:
    """At saturation, where ``in_flight`` bundles of ``a + b · n`` are under way; more of them where they are single."""
    times_ms = {size: a_ms + b_ms * size for size in (1, 10, 50, 300)}
    return [
        Point(width, size, in_flight * size / time_ms * 1e3, time_ms, 30.0 if size == 1 else in_flight, 0.1, 0.02)
        for size, time_ms in times_ms.items()
    ]


POINTS = [*measured(2, 3.0, 0.1), *measured(4, 4.0, 0.2), *measured(12, 6.0, 0.4)]


def test_the_law_is_found_again() -> None:
    assert fitted(measured(2, 3.0, 0.1), 4) == (pytest.approx(3.0), pytest.approx(0.1))


def test_a_law_that_is_written_can_be_read(tmp_path: Path) -> None:
    found = law(POINTS, {"machine": "m"})
    assert found["loads"] == [0.0, pytest.approx(0.2), 1.0]
    file = tmp_path / "law.json"
    file.write_text(json.dumps(found))
    pipeline = read_law(file)
    assert pipeline.in_flight == 4
    assert pipeline.law.a_ms == pytest.approx((3.0, 4.0, 6.0))
    assert pipeline.law.b_ms == pytest.approx((0.1, 0.2, 0.4))
    assert (pipeline.law.cv, pipeline.law.drift_cv, pipeline.law.origin) == (0.1, 0.02, "measured (m)")


def test_its_shape_is_that_of_slo_batch() -> None:
    """3, 4 and 6 ms over 0.1, 0.2 and 0.4: 2 ms and ten tuples."""
    found = law(POINTS, {})
    assert shape(found) == (pytest.approx(2.0), pytest.approx(10.0))
    told = law_rows(found, (2, 4, 12))
    assert "fixed 2.000 ms, and an overhead of 10.0 tuples; 4 bundles in flight" in told.title
    assert [row["width"] for row in told.rows] == [2, 4, 12]
