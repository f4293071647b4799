"""A hundred random streams on the dispatcher; ``python -m lab.benchmarks.mixed.played`` plays thousands."""

import pytest

from lab.benchmarks.mixed.played import Played


@pytest.mark.parametrize("first", range(0, 100, 10))
def test_what_comes_out_is_what_a_plain_loop_gives(first: int):
    for seed in range(first, first + 10):
        Played(seed).play()
