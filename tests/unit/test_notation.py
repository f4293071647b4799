"""The one-line notation: what it means, and the sentence for everything it may not say."""

from __future__ import annotations

import pytest

from compositions.errors import CompositionError
from compositions.model import Composition, Group, Pattern, Stage, StageKind
from compositions.notation import format_notation, parse, short_notation

FERRET = tuple(Stage(name) for name in ("segment", "extract", "vectorize", "rank"))
COUNTER = (Stage("split"), Stage("count", StageKind.STATEFUL))


def test_stages_by_number_by_name_and_by_position_mean_the_same() -> None:
    by_number = parse("Seq(f1,f2)-Par-Par", FERRET, name="13")
    by_name = parse(" Seq ( segment , extract ) - Par(vectorize) - Par*2(rank) ", FERRET, name="13")
    assert by_number == by_name
    assert by_number.groups == (
        Group(("segment", "extract")),
        Group(("vectorize",), Pattern.PAR, 2),
        Group(("rank",), Pattern.PAR, 2),
    )


def test_par_takes_the_replicas_of_the_document_unless_it_says_its_own() -> None:
    composition = parse("Par-Par*3-Seq-Seq", FERRET, default_replicas=5)
    assert [group.replicas for group in composition.groups] == [5, 3, 1, 1]


def test_format_names_every_stage_and_writes_two_replicas_as_par() -> None:
    composition = parse("Seq(f1,f2)-Par-Par*3", FERRET)
    assert format_notation(composition) == "Seq(segment,extract)-Par(vectorize)-Par*3(rank)"
    assert short_notation(composition) == "Seq(f1,f2)-Par-Par*3"


def test_par_with_one_replica_stays_par() -> None:
    composition = Composition("", (Group(("split", "count"), Pattern.PAR, 1),))
    assert format_notation(composition) == "Par*1(split,count)"
    assert parse("Par*1(a,b)", (Stage("a"), Stage("b"))).groups[0].pattern is Pattern.PAR


def test_a_stage_that_is_itself_called_f2_is_meant_by_its_name() -> None:
    stages = (Stage("f2"), Stage("f1"))
    assert parse("Seq(f2)-Seq(f1)", stages).stages == ("f2", "f1")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "Seq(segment,rnak)-Seq-Seq",
            "unknown stage 'rnak' (did you mean 'rank'?); ferret has segment, extract, vectorize, rank",
        ),
        ("Seq(f1,f9)-Seq-Seq", "unknown stage 'f9'; ferret has"),
        ("Seq(f1,f1)-Seq-Seq-Seq", "stage 'segment' is repeated"),
        ("Seq-Seq-Seq", "stage 'rank' is missing"),
        (
            "Seq(f2)-Seq(f1)-Seq(f3)-Seq(f4)",
            "stage 'segment' is in the wrong order after 'extract'; ferret has segment,",
        ),
        ("Seq-Seq-Seq-Seq-Par", "Par at position 16 has no stage left to take; ferret has"),
        ("Seq()-Seq-Seq-Seq", "the group has no stage"),
        ("Par*0-Seq-Seq-Seq", "replicas is 0; it must be at least 1"),
        ("Par*-2-Seq-Seq-Seq", "replicas is -2; it must be at least 1"),
        ("Par*2000000-Seq-Seq-Seq", "replicas is 2000000; it must be at least 1 and at most 1,000"),
        (f"Par*{'9' * 5000}-Seq-Seq-Seq", "replicas has 5000 digits at position 4"),
        ("Seq*2-Seq-Seq-Seq", "Seq has 1 worker and takes no number at position 4; write Par*N"),
        ("", "expected Seq or Par at position 0 of the notation, found the end"),
        ("Seq-Foo", "expected Seq or Par at position 4 of the notation, found 'Foo'"),
        ("Seq(f1", "expected '-' and the next group, or the end at position 3 of the notation, found '(f1'"),
        ("Seq-Seq-Seq-Seq-", "expected Seq or Par at position 16 of the notation, found the end"),
    ],
)
def test_what_is_no_composition_is_refused_with_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(CompositionError) as refusal:
        parse(text, FERRET, app="ferret")
    assert len(refusal.value.faults) == 1
    assert sentence in str(refusal.value)


def test_a_partitioned_stage_may_be_replicated_up_to_its_partitions_if_it_begins_its_group() -> None:
    stages = (Stage("a"), Stage("by", StageKind.PARTITIONED, partitions=3), Stage("c"))
    assert parse("Seq-Par*3(by,c)", stages).groups[1] == Group(("by", "c"), Pattern.PAR, 3)
    with pytest.raises(CompositionError, match="replicas is 4; stage 'by' has 3 partitions, and so many at most"):
        parse("Seq-Par*4-Seq", stages)
    with pytest.raises(CompositionError, match="stage 'one' has 1 partition, and so many at most"):
        parse("Par*2", (Stage("one", StageKind.PARTITIONED, partitions=1),))
    with pytest.raises(CompositionError, match="stage 'by' is partitioned and not the first of its Par group; begin"):
        parse("Par(a,by)-Seq", stages)


def test_a_stateful_stage_may_not_be_replicated() -> None:
    assert parse("Par-Seq", COUNTER).workers == 3
    with pytest.raises(CompositionError, match="stage 'count' is stateful and may not be in a Par group"):
        parse("Par(split,count)", COUNTER)


def test_what_is_drawn_for_people_is_read_as_well() -> None:
    drawn = parse("Seq(segment)-Par × 3(extract)-Par×2-Seq", FERRET)
    assert drawn.groups == parse("Seq(segment)-Par*3(extract)-Par*2-Seq", FERRET).groups
