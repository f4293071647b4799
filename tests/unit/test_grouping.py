"""The cheapest groups of stages, held against every way to cut the pipeline."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.rule.grouping import Grouping, StageFacts, cheapest, grouping_cost


def every_grouping(count: int) -> list[Grouping]:
    longer = [(*before, tuple(range(begin, count))) for begin in range(count) for before in every_grouping(begin)]
    return longer or [()]


@given(
    st.lists(
        st.builds(StageFacts, st.just("s"), st.sampled_from([1, 4, 1000]), st.sampled_from([0.0, 1.0, 3.0])),
        min_size=1,
        max_size=5,
    ),
    st.data(),
)
def test_no_cut_of_the_pipeline_is_cheaper(stages: list[StageFacts], data: st.DataObject) -> None:
    loads = data.draw(st.lists(st.floats(0, 20), min_size=len(stages), max_size=len(stages)))
    found = grouping_cost(stages, loads, cheapest(stages, loads))
    assert found == pytest.approx(min(grouping_cost(stages, loads, each) for each in every_grouping(len(stages))))


def test_neighbours_share_workers_but_for_a_state_or_an_accelerator() -> None:
    plain = [StageFacts(name) for name in "abc"]
    assert cheapest(plain, [1.0, 1.0, 1.0]) == ((0, 1, 2),)
    assert cheapest([plain[0], StageFacts("b", most=1), plain[2]], [1.0, 0.5, 1.0]) == ((0,), (1,), (2,))
    assert cheapest([plain[0], StageFacts("b", price=9.0), plain[2]], [3.0, 0.5, 3.0]) == ((0,), (1,), (2,))
