"""Keys of partitioned stages: the same partition everywhere, and what is no key is refused."""

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.keys import Partitions, WrongKeyError

plain = st.one_of(st.text(), st.binary(), st.integers(), st.booleans(), st.none())
keys = st.recursive(plain, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)


@given(st.lists(keys, max_size=20), st.integers(1, 256))
def test_equal_keys_share_a_partition_whoever_asks_and_in_whatever_order(some: list[object], count: int) -> None:
    together = Partitions(count).of(some)
    assert list(together) == [Partitions(count).of([key])[0] for key in some]
    assert max(together, default=0) < count


def test_true_is_one() -> None:
    assert Partitions(64).of([True, (False, 1)]) == Partitions(64).of([1, (0, True)])


def test_another_process_with_another_hash_seed_says_the_same() -> None:
    keys = ["a", b"a", 7, -7, None, ("a", (1, None))]
    code = f"from apps.keys import Partitions; print(list(Partitions(64).of({keys})))"
    told = {
        subprocess.check_output([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    }
    assert told == {b"[62, 4, 45, 54, 18, 46]\n"}


def test_keys_spread_over_the_partitions() -> None:
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
    with pytest.raises(WrongKeyError, match="the key 'ann' cannot be compared with the bounds, as 10"):
        Partitions(2, (10,)).of(["ann"])
