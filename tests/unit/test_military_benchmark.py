"""The benchmark of the Military Server judges a controller by the bundles that left its workers."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lab.benchmarks.military_server import judged


def test_a_bundle_counts_once_from_its_first_read_on() -> None:
    """Target 3 ms: a bundle of two items took 3.1 ms, one of a single item 6 ms."""
    items = {"serial": [2, 0, 1], "read": [3000, 0, 50], "delivered": [9000, 3100, 3100], "batch": [1, 0, 2]}
    found = judged(pa.table(items))
    assert found.batched_hit == 0.5
    assert found.itemized_hit == pytest.approx(2 / 3)
    assert found.mad_distance == pytest.approx((0.1 + 3.0) / 3 / 2)
