"""What the core holds does not grow with the stream; ``python -m lab.benchmarks.day`` plays a whole day."""

from __future__ import annotations

from lab.benchmarks.day import HOUR_S, Day, held, roots_of, scenario


def test_three_quarters_of_an_hour_hold_no_more_than_a_quarter():
    """But for samples, which fill up within hours: they are bounded rows in arrays."""
    run = Day(scenario(hours=1))
    sizes = []
    for quarter in (1, 2, 3):
        run.advance(quarter * HOUR_S / 4)
        size_bytes, by_type = held(roots_of(run))
        sizes.append(size_bytes - by_type["array"])
    assert run.items > 10_000
    assert max(sizes[1:]) < 1.1 * sizes[0]
