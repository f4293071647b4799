"""The results that the benchmark of light streams expects are those of its apps, one by one."""

from __future__ import annotations

import pytest

from apps import registry
from lab.benchmarks.light_streams import APPS, KEYS, STAGES, loops_of_a_stage, plus_four, sum_at


def test_the_expected_results_are_those_of_the_apps() -> None:
    light, value = registry.create("light", {"loops": 3}, [APPS]), 7
    for name in STAGES:
        value = getattr(light, name)(value)
    assert value == plus_four(7)
    assert loops_of_a_stage() >= 1


@pytest.mark.parametrize("name", ["keyed_sum", "keyed_sums"])
def test_the_expected_sums_are_those_of_the_app(name: str) -> None:
    app, states = registry.create(name, {}, [APPS]), dict[int, int | None]()
    for value in range(3 * KEYS + 7):
        key = app.total_key(value)  # type: ignore[attr-defined]
        if name == "keyed_sum":
            result, states[key] = app.total(value, states.get(key))  # type: ignore[attr-defined]
        else:
            (result,), changed = app.total([value], {key: states.get(key)})  # type: ignore[attr-defined]
            states.update(changed)
        assert result == sum_at(value)
