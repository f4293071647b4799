"""How many items travel together where nobody has said."""

import pytest

from compositions.batching import Batching
from compositions.model import Composition, Group
from compositions.settings import SettingsError
from control.bundles.bundle_size import MOST_ITEMS, grain_of
from profiler.snapshot import StageProfile

STAGES = ("a", "b", "c", "d")
MERGED = Composition("1", (Group(STAGES),))
CHAIN = Composition("4", tuple(Group((stage,)) for stage in STAGES))
HOP_S = 100e-6


def profiles(each_s: float) -> tuple[StageProfile, ...]:
    return tuple(StageProfile(stage, each_s, each_s, 0.0, each_s, each_s, 100) for stage in STAGES)


@pytest.mark.parametrize(
    ("composition", "each_s", "target_s", "items"),
    [
        (MERGED, 1e-3, None, 1),  # 10 * 0.1 ms of hop against 4 ms of work: less than an item
        (MERGED, 50e-6, None, 4),  # 10 * 100 us / 200 us = 5, and 4 is the power of two
        (CHAIN, 50e-6, None, 16),  # four hops: 20
        (CHAIN, 50e-6, 2e-3, 2),  # a quarter of 2 ms is 0.5 ms: 2 items of 200 us
        (MERGED, 0.05e-6, None, MOST_ITEMS),  # 5000 would do
        (MERGED, 0.0, None, MOST_ITEMS),
        (CHAIN, 1e-3, None, 1),  # 10 * 0.4 / 4 = 1 item
        (CHAIN, 600e-6, None, 1),  # 1.67 items
        (CHAIN, 400e-6, 5e-3, 1),  # the hop asks for 2.5, a quarter of 5 ms bears 0.8
    ],
)
def test_as_many_as_make_the_hop_cheap_and_the_objective_bears(
    composition: Composition, each_s: float, target_s: float | None, items: int
) -> None:
    assert grain_of(profiles(each_s), composition, HOP_S, target_s).items == items


def test_one_by_one_until_every_stage_was_measured() -> None:
    found = grain_of(profiles(1e-6)[:3], MERGED, HOP_S, None)
    assert (found.items, found.reason) == (1, "nothing is measured yet")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"items": 0}, "items is 0; must be auto, or a whole number from 1 to 100,000"),
        ({"items": 2.5}, "items is 2.5; must be auto"),
        ({"linger_ms": -1.0}, "linger_ms"),
        ({"max_bytes": 0}, "max_bytes"),
    ],
)
def test_what_is_no_bundle_is_refused_with_a_sentence(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        Batching(**given)  # type: ignore[arg-type]
