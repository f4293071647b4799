"""What the benchmark of large states rests on."""

from __future__ import annotations

from itertools import islice

from apps import registry
from lab.benchmarks.large_state import APPS, STATE_BYTES


def test_each_key_comes_once_before_one_comes_again_and_its_state_has_the_size_asked_for() -> None:
    app = registry.create("keyed_blobs", {"keys": 100, "state_bytes": STATE_BYTES}, [APPS])
    states: dict[int, bytes] = {}
    for number, key in enumerate(islice(app.items(None), 300)):
        came, states[key] = app.count(key, states.get(key))  # type: ignore[attr-defined]
        assert came == number // 100 + 1
    assert {len(state) for state in states.values()} == {STATE_BYTES}
    assert len(states) == 100
