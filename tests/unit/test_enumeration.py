"""Count how many compositions there are, and how many there may be."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi.testclient import TestClient
from synthetic_daemon import YAML, detail

from compositions import enumeration
from compositions.enumeration import MAX_OWN, generate, own_list
from compositions.errors import CompositionError
from compositions.model import Group, Pattern, Stage, StageKind
from compositions.notation import parse
from service.daemon import compositions as choices
from service.daemon.compositions import Compositions
from service.schemas.compositions import Choice

TWO = (Stage("a"), Stage("b"))


def test_a_partitioned_stage_is_offered_with_as_many_workers_as_it_has_partitions() -> None:
    stages = (Stage("a"), Stage("by", StageKind.PARTITIONED, partitions=2))
    found = {each.name for each in generate(stages, max_workers=4, replicas=[1, 2, 3])}
    assert found == {"Seq(f1,f2)", "Seq-Seq", "Seq-Par", "Par-Seq", "Par-Par", "Par*3-Seq"}


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
    with pytest.raises(CompositionError, match=r"with replicas \[4\], every composition has more than 2 workers"):
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


# How many compositions and workers there may be, and what is said beyond.


PATIENCE_S = 10.0


def document(first: int, count: int) -> str:
    listed = "".join(f"  - {{name: c{n}, notation: Seq-Seq-Seq}}\n" for n in range(first, first + count))
    return f"app: synthetic\ncompositions:\n{listed}"


def test_posts_do_not_add_up_beyond_the_limit(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "MAX_COMPOSITIONS", 100)
    assert client.post("/compositions", content=document(0, 60), headers=YAML).status_code == 200
    refused = client.post("/compositions", content=document(60, 60), headers=YAML)
    assert "at most 100 are kept, remove some" in detail(refused, 422)
    assert client.post("/compositions", content=document(0, 60), headers=YAML).status_code == 200, "replaced"


def test_a_listing_comes_in_pages(client: TestClient) -> None:
    answer = client.post("/compositions", content=document(0, 1050), headers=YAML).json()
    assert len(answer) == 1000
    names: list[str] = []
    asked: dict[str, int | str] = {"limit": 400}
    while page := client.get("/compositions/synthetic", params=asked).json():
        assert len(page) <= 400
        names += [each["name"] for each in page]
        asked["after"] = names[-1]
    assert len(names) == len(set(names)) >= 1050
    every = client.get("/compositions", params={"limit": 2, "after": f"synthetic/{names[1]}"}).json()
    assert [each["name"] for each in every] == names[2:4]
    refused = client.get("/compositions/synthetic", params={"after": "nothing"})
    assert "after = 'nothing': there is no such composition" in detail(refused, 404)


def test_a_document_is_read_beside_the_event_loop(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large one took 378 ms in which nobody else was answered."""
    reading, go_on = threading.Event(), threading.Event()

    def add(self: Compositions, text: bytes) -> list[Choice]:
        reading.set()
        assert go_on.wait(PATIENCE_S), "nobody was answered while it was read"
        return []

    monkeypatch.setattr(Compositions, "add", add)
    with ThreadPoolExecutor(1) as beside:
        posted = beside.submit(client.post, "/compositions", content=document(0, 1), headers=YAML)
        assert reading.wait(PATIENCE_S)
        assert client.get("/healthz").status_code == 200
        go_on.set()
        assert posted.result().status_code == 200


# The one-line notation: what it means, and the sentence for everything it may not say.


FERRET = tuple(Stage(name) for name in ("segment", "extract", "vectorize", "rank"))


def test_stages_by_number_by_name_and_by_position_mean_the_same() -> None:
    by_number = parse("Seq(f1,f2)-Par-Par", FERRET, name="13")
    by_name = parse(" Seq ( segment , extract ) - Par(vectorize) - Par*2(rank) ", FERRET, name="13")
    assert by_number == by_name
    vectorize, rank = (Group((name,), Pattern.PAR, 2) for name in ("vectorize", "rank"))
    assert by_number.groups == (Group(("segment", "extract")), vectorize, rank)


def test_a_stage_that_is_itself_called_f2_is_meant_by_its_name() -> None:
    stages = (Stage("f2"), Stage("f1"))
    assert parse("Seq(f2)-Seq(f1)", stages).stages == ("f2", "f1")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Seq(segment,rnak)-Seq-Seq", "unknown stage 'rnak' (did you mean 'rank'?); ferret has segment, extract, vec"),
        ("Seq(f1,f9)-Seq-Seq", "unknown stage 'f9'; ferret has"),
        ("Seq(f1,f1)-Seq-Seq-Seq", "stage 'segment' is repeated"),
        ("Seq-Seq-Seq", "stage 'rank' is missing"),
        ("Seq(f2)-Seq(f1)-Seq(f3)-Seq(f4)", "stage 'segment' is in the wrong order after 'extract'; ferret has"),
        ("Seq-Seq-Seq-Seq-Par", "no stage is left for Par at position 16; ferret has"),
        ("Seq()-Seq-Seq-Seq", "the group has no stage"),
        ("Par*0-Seq-Seq-Seq", "replicas is 0; it must be at least 1"),
        ("Par*-2-Seq-Seq-Seq", "replicas is -2; it must be at least 1"),
        ("Par*2000000-Seq-Seq-Seq", "replicas is 2000000; it must be at least 1 and at most 1,000"),
        (f"Par*{'9' * 5000}-Seq-Seq-Seq", "the number of replicas at position 4 has 5000 digits"),
        ("Seq*2-Seq-Seq-Seq", "Seq has 1 worker and accepts no number at position 4; write Par*N"),
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
    with pytest.raises(CompositionError, match="replicas is 4; must be at most 3, as stage 'by' has 3 partitions"):
        parse("Seq-Par*4-Seq", stages)
    with pytest.raises(CompositionError, match="must be at most 1, as stage 'one' has 1 partition"):
        parse("Par*2", (Stage("one", StageKind.PARTITIONED, partitions=1),))
    with pytest.raises(CompositionError, match="stage 'by' is partitioned and not the first of its Par group; begin"):
        parse("Par(a,by)-Seq", stages)


def test_what_is_drawn_for_people_is_read_as_well() -> None:
    drawn = parse("Seq(segment)-Par × 3(extract)-Par×2-Seq", FERRET)
    assert drawn.groups == parse("Seq(segment)-Par*3(extract)-Par*2-Seq", FERRET).groups
