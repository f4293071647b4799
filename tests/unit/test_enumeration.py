"""Enumeration: which compositions there are, the cheapest first."""

from __future__ import annotations

import pytest

from compositions import enumeration
from compositions.enumeration import MAX_OWN, generate, own_list
from compositions.errors import CompositionError
from compositions.model import Stage, StageKind

TWO = (Stage("a"), Stage("b"))


def test_all_compositions_of_two_stages_in_order_of_cost() -> None:
    names = [each.name for each in generate(TWO, max_workers=3, replicas=[2, 1, 2])]
    assert names == ["Seq(f1,f2)", "Par(f1,f2)", "Seq-Seq", "Seq-Par", "Par-Seq"]


def test_a_partitioned_stage_is_offered_with_as_many_workers_as_it_has_partitions() -> None:
    stages = (Stage("a"), Stage("by", StageKind.PARTITIONED, partitions=2))
    found = {each.name for each in generate(stages, max_workers=4, replicas=[1, 2, 3])}
    assert found == {"Seq(f1,f2)", "Seq-Seq", "Seq-Par", "Par-Seq", "Par-Par", "Par*3-Seq"}


def test_a_stateful_stage_keeps_its_group_sequential() -> None:
    stages = (Stage("a"), Stage("b", StageKind.STATEFUL))
    names = {each.name for each in generate(stages, max_workers=9, replicas=[2, 4])}
    assert names == {"Seq(f1,f2)", "Par-Seq", "Par*4-Seq"}


def test_the_number_of_compositions_is_that_of_the_formula() -> None:
    # k groups: choose(n-1, k-1) cuts, and r choices for each group.
    stages = [Stage(f"s{number}") for number in range(5)]
    found = list(generate(stages, max_workers=100, replicas=[1, 2, 3]))
    assert len(found) == sum(cuts * 3**groups for groups, cuts in enumerate([1, 4, 6, 4, 1], start=1))


@pytest.mark.parametrize("count", [12, 60, 1000])
def test_too_many_are_refused_without_making_them(count: int) -> None:
    stages = [Stage(f"s{number}") for number in range(count)]
    with pytest.raises(CompositionError, match="more than 10,000 compositions would be generated; lower max_workers"):
        generate(stages, max_workers=10**6, replicas=range(1, 50))


def test_exactly_as_many_as_the_limit_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert enumeration.MAX_GENERATED == 10_000
    monkeypatch.setattr(enumeration, "MAX_GENERATED", 500)
    assert len(list(generate([Stage("a")], max_workers=10**6, replicas=range(1, 501)))) == 500
    with pytest.raises(CompositionError, match="more than 500"):
        generate([Stage("a")], max_workers=10**6, replicas=range(1, 502))


def test_no_composition_within_the_limit_is_a_refusal() -> None:
    with pytest.raises(CompositionError, match=r"no composition has at most 2 workers with replicas \[4\]"):
        generate(TWO, max_workers=2, replicas=[4])
    with pytest.raises(CompositionError, match="replicas is 0; it must be at least 1"):
        generate(TWO, max_workers=2, replicas=[0])


@pytest.mark.parametrize("cores", [1, 2, 8, 96])
@pytest.mark.parametrize("length", [1, 3, 7, 30])
def test_an_app_without_a_file_can_be_given_twice_the_cores_in_a_list_that_can_be_read(cores: int, length: int) -> None:
    stages = [Stage(f"s{number}") for number in range(length)]
    found = own_list(stages, cores)
    assert 1 <= len(found) <= MAX_OWN
    assert max(each.workers for each in found) <= max(2 * cores, length)
    assert [each.name for each in found if len(each.groups) == each.workers == length] == ["sequential"]
    if length <= 3 and cores <= 8:
        assert max(group.replicas for each in found for group in each.groups) >= 2 * cores - length


def test_a_list_of_its_own_is_what_generate_finds_where_that_is_not_too_much() -> None:
    every = {each.shape for each in generate(TWO, max_workers=8, replicas=range(1, 9))}
    assert {each.shape for each in own_list(TWO, 4)} == every
