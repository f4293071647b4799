"""Send what partitioned stages need with the messages of the transport, and get it back."""

import os
import pickle
import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.keys import Partitions, WrongKeyError
from runtime.pools.ray.language import packed, packed_changes, unpacked, unpacked_changes

STATES = st.dictionaries(st.integers(0, 5), st.dictionaries(st.text(max_size=3), st.one_of(st.none(), st.binary())))
BY_STAGE = st.dictionaries(st.sampled_from(["count", "again"]), STATES)


@given(BY_STAGE)
def test_states_come_out_of_their_frame_as_they_went_in(states):
    contents, frame = packed(states)
    assert unpacked(pickle.loads(pickle.dumps(contents)), memoryview(bytearray(frame))) == states


@given(BY_STAGE)
def test_what_a_task_made_comes_out_of_its_frame_by_partition_and_by_key(states):
    made, frame = packed_changes(states)
    changes = unpacked_changes(pickle.loads(pickle.dumps(made)), memoryview(bytearray(frame)))
    assert changes.keys() == states.keys()
    for name, stage in states.items():
        there = {partition: part for partition, part in stage.items() if part}
        assert dict(changes[name]) == there
        assert (len(changes[name]), list(changes[name])) == (len(there), list(there))
        assert {partition in changes[name] for partition in there} <= {True}
        assert 77 not in changes[name]
        pairs = [(key, state, each) for each, part in there.items() for key, state in part.items()]
        assert changes[name].by_key() == {key: state for key, state, _ in pairs}
        assert changes[name].partition_of_each() == {key: each for key, _, each in pairs}


def test_a_frame_that_is_not_that_of_its_states_is_refused():
    contents, frame = packed({"count": {0: {"a": b"state", "b": b"other"}}})
    with pytest.raises(struct.error):
        unpacked(contents, frame[:-1])


# --- keys: the same partition everywhere, and what is no key is refused -----------------------------------------------


plain = st.one_of(st.text(), st.binary(), st.integers(), st.booleans(), st.none())
keys = st.recursive(plain, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)


@given(st.lists(keys, max_size=20), st.integers(1, 256))
def test_equal_keys_share_a_partition_whoever_asks_and_in_whatever_order(some: list[object], count: int) -> None:
    together = Partitions(count).of(some)
    assert list(together) == [Partitions(count).of([key])[0] for key in some]
    assert max(together, default=0) < count


def test_another_process_with_another_hash_seed_says_the_same() -> None:
    keys = ["a", b"a", 7, -7, None, ("a", (1, None))]
    code = f"from apps.keys import Partitions; print(list(Partitions(64).of({keys})))"
    for seed in ("1", "2"):
        told = subprocess.check_output([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed})
        assert told == b"[62, 4, 45, 54, 18, 46]\n"


def test_keys_spread_over_the_partitions_and_true_is_one() -> None:
    assert Partitions(64).of([True, (False, 1)]) == Partitions(64).of([1, (0, True)])
    found = Partitions(64).of([f"user {number}" for number in range(64_000)])
    assert all(800 < found.count(bytes([partition])) < 1200 for partition in range(64))


@pytest.mark.parametrize("key", [1.5, [1], {"a": 1}, ("a", 1.5), object(), frozenset()])
def test_what_is_not_the_same_everywhere_is_refused(key: object) -> None:
    with pytest.raises(WrongKeyError, match="a key must be str, bytes, int, bool, None or a tuple of these"):
        Partitions(64).of(["fine", key])  # type: ignore[list-item]


def test_ranges_of_keys_are_partitions_in_their_order() -> None:
    """Prasaad et al., section 2.1: hash or range partitioning."""
    assert list(Partitions(4, (10, 20, 30)).of([-5, 9, 10, 19, 30, 1 << 70])) == [0, 0, 1, 1, 3, 3]
    assert list(Partitions(3, ("f", "q")).of(["ann", "f", "zoe"])) == [0, 1, 2]
    with pytest.raises(WrongKeyError, match="key 'ann' cannot be compared with partition bounds such as 10"):
        Partitions(2, (10,)).of(["ann"])
