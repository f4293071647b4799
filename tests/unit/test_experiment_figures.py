"""Figures of experiments: every item counts once, repetitions have a spread, an app is its own processes."""

import subprocess
import sys
from dataclasses import replace

import psutil
import pytest

from lab.experiments.contender import Left, Measurement, Point, Seen, filled_in, measurement_of
from lab.experiments.figures import Row, Spread
from lab.experiments.live import Usage
from lab.experiments.report import cells

POINT = Point(at_s=1.0, rate_per_s=10.0, throughput_per_s=10.0, latency_ms=100.0, composition="1", workers=1, met=None)


def test_every_item_counts_once_and_in_its_own_quarter_of_a_second() -> None:
    """10 items of 100 ms and 30 of 20 ms; one is of the warm-up, one of after the end."""
    times = [(0.1, 9.0), *((0.3, 0.1),) * 10, *((0.7, 0.02),) * 30, (1.1, 7.0)]
    samples = [replace(POINT, at_s=number * 0.25) for number in range(1, 5)]
    run = measurement_of("1", 0, Seen(samples, [Left(*each) for each in times], 0, 0), warm_up_s=0.25)
    assert run.latency_ms == pytest.approx(40.0)
    assert [sample.latency_ms for sample in run.samples] == [9000.0, pytest.approx(100.0), pytest.approx(20.0), None]
    assert [sample.throughput_per_s for sample in run.samples] == [4.0, 40.0, 120.0, 0.0]
    assert measurement_of("1", 0, Seen(samples, [], 0, 0), 0.25).latency_ms is None


def test_the_size_of_bundles_is_that_at_the_sink() -> None:
    items = [Left(0.1, 0.1), Left(0.1, 0.1, 2), Left(0.2, 0.1), Left(0.3, 0.1, 4)]
    found = filled_in([replace(POINT, at_s=0.25), replace(POINT, at_s=0.5)], items)
    assert [sample.batch_items for sample in found] == [2.0, 4.0]


def test_repetitions_have_a_mean_and_a_standard_deviation() -> None:
    assert Spread.of([1.0, 3.0, None]) == Spread(2.0, pytest.approx(2**0.5))
    assert Spread.of([5.0]) == Spread(5.0, None)
    assert Spread.of([None]) is None


def test_a_table_shows_the_spread_where_there_is_one() -> None:
    row = Row(3.0, 4.0, 100.0, None, 1.0, 0.0, 0.0, ("1",), None, Spread(3.1, 0.2), Spread(105.0, 7.0))
    assert cells("a", row)[1:4] == ["3.10 ± 0.20", "4.00", "105 ± 7"]
    assert cells("a", replace(row, achieved=Spread(3.0, None), latency=None))[1:4] == ["3.00", "4.00", "100"]


def test_cpu_and_memory_are_of_the_given_processes_and_this_one() -> None:
    busy = "import sys\nkept = bytearray(b'x' * 50_000_000)\nprint(flush=True)\nsys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        usage = Usage()
        _, with_it = usage.measure([child.pid, child.pid])
        _, alone = usage.measure([])
        child.kill()
    assert 40 < with_it - alone < 200, "MB"
    assert usage.measure([child.pid]) is not None, "a worker that has ended is no fault"
    assert not psutil.pid_exists(child.pid)


def test_a_measurement_is_read_as_it_was_written() -> None:
    run = Measurement("1", 0, (POINT,), 10.0, 10.0, 100.0, None, 0, 0, 1.0)
    assert Measurement.from_json(run.as_json()) == run
