"""States by key in one table: what it has of each partition is what a dict a partition would have."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.dispatch import keys as by_key
from runtime.dispatch.keys import StatesByKey

COUNT = 3
KEYS = st.integers(0, 30)
STEPS = st.lists(
    st.one_of(
        st.integers(0, COUNT - 1),  # a partition goes elsewhere
        st.dictionaries(KEYS, st.one_of(st.none(), st.binary(max_size=2)), max_size=12),
    ),
    max_size=30,
)


@given(steps=STEPS)
def test_it_has_of_each_partition_what_a_table_a_partition_has(steps: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_key, "_FORGOTTEN", 2)
        states, plain = StatesByKey(COUNT), [dict[int, bytes]() for _ in range(COUNT)]
        for step in steps:
            if isinstance(step, int):
                states.drop(step)
                plain[step] = {}
                continue
            states.put(step, lambda changed=step: {key: key % COUNT for key in changed})  # type: ignore[misc]
            for key, state in step.items():
                plain[key % COUNT].pop(key, None)
                plain[key % COUNT] |= {} if state is None else {key: state}
            assert states.looked_up(step) == step
        assert [states.of(each) for each in range(COUNT)] == plain
        assert len(states) == sum(map(len, plain))


def test_keys_that_come_and_go_for_ever_leave_nothing_behind() -> None:
    states = StatesByKey(1)
    for key in range(10_000):
        states.put({key: b"state", key - 3: None}, lambda key=key: {key: 0, key - 3: 0})  # type: ignore[misc]
    assert sorted(states.of(0)) == [9997, 9998, 9999]
    assert len(states._keys[0]) < 200
