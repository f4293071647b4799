"""What the benchmark of sums by key rests on: the same work for all, and a check that finds faults."""

from __future__ import annotations

import pytest

from apps import registry
from lab.benchmarks.light.ours import APPS
from lab.benchmarks.light.work import KEYS, key_of, last_sums, sum_at, verify_sums


def test_what_is_expected_of_all_is_what_our_app_does_one_by_one() -> None:
    app, states, items = registry.create("keyed_sum", {}, [APPS]), dict[int, int](), 3 * KEYS + 7
    for value in range(items):
        key = app.total_key(value)  # type: ignore[attr-defined]
        result, states[key] = app.total(value, states.get(key))  # type: ignore[attr-defined]
        assert (key, result) == (key_of(value), sum_at(value))
    verify_sums(states, items, "a loop")
    assert states == last_sums(items)


def test_sums_of_another_stream_are_found() -> None:
    with pytest.raises(ValueError, match=r"other sums than a plain loop for 1 keys, the first is \[3\]"):
        verify_sums({**last_sums(10), 3: 4}, 10, "somebody")
