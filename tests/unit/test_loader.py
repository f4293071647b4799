"""Compositions documents and their folders: what they give, what is read when, and every fault by its path."""

import os
import threading
import time
from pathlib import Path

import pytest

import compositions
from compositions.batch_settings import BatchSettings, Gains, Steps
from compositions.batching import Batching, SizeControl
from compositions.document.directory import CompositionDirectory, Problem
from compositions.document.loader import dump, load
from compositions.errors import CompositionError
from compositions.model import Stage, StageKind
from compositions.notation import format_notation, short_notation

APPS = {
    "ferret": [Stage(name) for name in ("segment", "extract", "vectorize", "rank")],
    "synthetic": [Stage("first"), Stage("second"), Stage("third")],
    "counter": [Stage("split"), Stage("count", StageKind.STATEFUL)],
    "pair": [Stage("a"), Stage("b")],
    "one": [Stage("a")],
}
SHIPPED = Path(compositions.__file__).parent


def faults_of(text: str | bytes) -> dict[str, str]:
    with pytest.raises(CompositionError) as refusal:
        load(text, APPS)
    return {fault.path: fault.message for fault in refusal.value.faults}


def test_the_documented_example_loads() -> None:
    document = load(
        """
app: ferret
defaults: {replicas: 3}
compositions:
  - name: "1"
    notation: Seq-Seq-Seq-Seq    # one group per stage
  - name: "13"
    notation: Seq(f1,f2)-Par-Par
  - name: wide-rank
    groups:
      - {stages: [segment, extract, vectorize]}
      - {stages: [rank], replicas: 4}
generate:
  max_workers: 2
  replicas: [1, 2]
""",
        APPS,
    )
    assert document.app == "ferret"
    assert [(each.name, short_notation(each)) for each in document.compositions] == [
        ("1", "Seq-Seq-Seq-Seq"),
        ("13", "Seq(f1,f2)-Par*3-Par*3"),
        ("wide-rank", "Seq(f1,f2,f3)-Par*4"),
        ("Seq(f1,f2,f3,f4)", "Seq(f1,f2,f3,f4)"),
        ("Par(f1,f2,f3,f4)", "Par(f1,f2,f3,f4)"),
        ("Seq-Seq(f2,f3,f4)", "Seq-Seq(f2,f3,f4)"),
        ("Seq(f1,f2)-Seq(f3,f4)", "Seq(f1,f2)-Seq(f3,f4)"),
        ("Seq(f1,f2,f3)-Seq", "Seq(f1,f2,f3)-Seq"),
    ]


def test_generated_shapes_that_are_listed_already_are_left_out() -> None:
    one = "compositions: [{name: one, notation: 'Seq(f1,f2)'}]"
    document = load(f"app: counter\n{one}\ngenerate: {{max_workers: 2, replicas: [1]}}", APPS)
    assert [each.name for each in document.compositions] == ["one", "Seq-Seq"]


def test_the_long_form_may_name_the_pattern() -> None:
    groups = "[{stages: [f1], pattern: par}, {stages: [f2], pattern: seq}]"
    document = load(f"app: counter\ncompositions: [{{name: a, groups: {groups}}}]", APPS)
    assert format_notation(document.compositions[0]) == "Par(split)-Seq(count)"


@pytest.mark.parametrize(
    ("app", "shapes"),
    [
        ("synthetic", "SSS PSS SPS SSP PPS SPP PPP"),
        ("ferret", "SSSS PSSS SPSS SSPS SSSP PPSS PSPS PSSP SPPS SSPP SPSP PPPP (SS)PP P(SS)P PP(SS)"),
    ],
)
def test_shipped_files_are_the_published_compositions(app: str, shapes: str) -> None:
    found = load((SHIPPED / f"{app}.yaml").read_bytes(), APPS).compositions
    assert [each.name for each in found] == [str(number) for number in range(1, len(found) + 1)]
    letters = {("seq", 1): "S", ("par", 2): "P"}
    drawn = []
    for each in found:
        marks = [(letters[(group.pattern, group.replicas)], len(group.stages)) for group in each.groups]
        drawn.append("".join(letter if size == 1 else f"({letter * size})" for letter, size in marks))
    assert drawn == shapes.split()


def test_every_fault_is_named_with_its_path() -> None:
    faults = faults_of("""
app: ferret
colour: red
defaults: {replicas: 0}
compositions:
  - {name: "1", notation: Seq-Seq-Seq}
  - {name: 2, notation: Seq-Seq-Seq-Seq}
  - name: x
    groups: [{stages: [segment, rnak]}, {stages: [vectorize, extract], replicas: 0, colour: 3}, 7, {}]
  - {name: x, notation: Seq-Seq-Seq-Seq}
  - {name: y}
  - {name: z, notation: Seq-Seq-Seq-Seq, groups: []}
  - {name: a/b, notation: 5}
  - {notation: Seq-Seq-Seq-Seq}
  - {name: q, groups: [{stages: [segment, segment, 4]}, {stages: f2}, {stages: [rank], replicas: true, pattern: many}]}
generate: {replicas: [1, -1, two]}
""")
    expected = {
        "colour": "unknown key; accepted are app, defaults, resources, compositions, generate",
        "defaults.replicas": "replicas is 0; it must be at least 1 and at most 1,000",
        "compositions[0].notation": "stage 'rank' is missing; every stage appears exactly once",
        "compositions[1].name": "must be text, not 2; put it in quotes",
        "compositions[2].groups[0].stages[1]": "unknown stage 'rnak' (did you mean 'rank'?); ferret has segment, ext",
        "compositions[2].groups[1].colour": "unknown key; accepted are stages, pattern, replicas",
        "compositions[2].groups[1].replicas": "replicas is 0; it must be at least 1 and at most 1,000",
        "compositions[2].groups[1].stages[1]": "stage 'extract' is in the wrong order after 'vectorize'; ferret has",
        "compositions[2].groups[2]": "must be a mapping with stages, pattern, replicas, not 7",
        "compositions[2].groups[3].stages": "is missing",
        "compositions[3].name": "'x' is already the name of compositions[2]",
        "compositions[4]": "has neither notation nor groups; it needs exactly one of the two",
        "compositions[5]": "has both notation and groups; it needs exactly one of the two",
        "compositions[6].name": "'a/b' is not 1 to 100 printable characters without '/' and outer blanks",
        "compositions[6].notation": "must be text such as Seq-Par*3, not 5",
        "compositions[7].name": "is missing; every composition has a name",
        "compositions[8].groups[0].stages[1]": "stage 'segment' is repeated; every stage appears exactly once",
        "compositions[8].groups[0].stages[2]": "must be the name of a stage, not 4",
        "compositions[8].groups[1].stages": "must be a list, not the text 'f2'",
        "compositions[8].groups[2].pattern": "'many' is no pattern; seq and par are",
        "compositions[8].groups[2].replicas": "must be a whole number of at least 1, not True",
        "generate.max_workers": "is missing",
        "generate.replicas[1]": "replicas[1] is -1; it must be at least 1 and at most 1,000",
        "generate.replicas[2]": "must be a whole number of at least 1, not the text 'two'",
    }
    assert faults.keys() == expected.keys()
    assert [path for path, sentence in expected.items() if not faults[path].startswith(sentence)] == []


SAME_NAME = "compositions: [{name: Seq-Seq, notation: Par-Seq}]"
STATEFUL = "compositions: [{name: a, groups: [{stages: [split, count], replicas: 2}]}]"


@pytest.mark.parametrize(
    ("text", "path", "sentence"),
    [
        ("", "", "the document is empty"),
        ("[1]", "", "must be a mapping with app, defaults, resources, compositions, generate, not a list"),
        ("a: [1,\nb: }", "", "line 2, column 4: not YAML"),
        ("a: 1\n---\nb: 2", "", "line 2, column 1: not YAML: but found another document"),
        ("app: nope\ncompositions: []", "app", "unknown app 'nope'; known apps are counter, ferret, one, pair"),
        ("compositions: []", "app", "is missing; known apps are counter, ferret, one, pair, synthetic"),
        ("app: 3\ncompositions: []", "app", "must be the name of an app, not 3"),
        ("app: ferret", "compositions", "there is none"),
        ("app: counter\ngenerate: {max_workers: 1}\ncompositions: {}", "compositions", "must be a list, not a mapping"),
        ("app: ferret\ncompositions:", "compositions", "must be a list, not nothing"),
        ("app: ferret\ncompositions: [{name: a, groups: []}]", "compositions[0].groups", "stage 'segment', 'extra"),
        ("app: ferret\napp: ferret", "app", "the key is given twice, again at line 2, column 1"),
        ("app: ferret\ncompositions: [{name: a, name: b}]", "compositions[0].name", "the key is given twice"),
        ("a: &x 1\nb: *x", "", "line 2, column 4: alias 'x' is not accepted"),
        ("app: !!python/object/apply:os.getcwd []", "", "tag 'tag:yaml.org,2002:python/object/apply:os.getcwd' is not"),
        ("app: 2020-13-45", "", "a value that cannot be read: month must be in 1..12"),
        ("app: ferret\ngenerate: {max_workers: 2, dyn: [lp, best]}", "generate.dyn[1]", "'best' is no scheduler; qst"),
        ("app: ferret\ngenerate: {max_workers: 2, replicas: []}", "generate.replicas", "is empty; list numbers"),
        ("app: ferret\ngenerate: {max_workers: 0x" + "F" * 5000 + "}", "generate.max_workers", "too many digits"),
        (f"app: ferret\ngenerate: {{max_workers: 99, replicas: {[*range(1, 13)]}}}", "generate", "more than 10,000"),
        (f"app: counter\n{SAME_NAME}\ngenerate: {{max_workers: 2}}", "generate", "name 'Seq-Seq' of a generated com"),
        (f"app: counter\n{STATEFUL}", "compositions[0].groups[0]", "stage 'count' is stateful and may not be in a Par"),
        ("\ud800", "", "a value that cannot be read"),
        (b"\xff\xff", "", "not YAML"),
    ],
)
def test_a_faulty_document_is_refused_with_a_sentence(text: str | bytes, path: str, sentence: str) -> None:
    assert sentence in faults_of(text)[path]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"x" * 100_000_000, "the document has 100,000,000 bytes; at most 1,048,576 are accepted"),
        ("[" * 10_000 + "]" * 10_000, "line 1, column 21: nested deeper than 20 levels"),
        ("- " * 10_000, "line 1, column 41: nested deeper than 20 levels"),
    ],
)
def test_the_huge_and_the_deep_are_refused_at_once(text: str | bytes, sentence: str) -> None:
    started = time.perf_counter()
    faults = faults_of(text)
    assert time.perf_counter() - started < 1.0
    assert faults == {"": sentence}


def test_a_megabyte_of_nonsense_does_not_answer_with_a_hundred() -> None:
    with pytest.raises(CompositionError) as refusal:
        load(f"app: ferret\ncompositions: [{'x, ' * 20_000}]", APPS)
    assert len(refusal.value.faults) == 1_001
    assert str(refusal.value).startswith("compositions: 20,000 are listed; an app may have 10,000\n")
    assert str(refusal.value).endswith("and 9,001 more faults")


ONE_OF = "auto, fixed, faf, pbaf, pbaf-wt, mbaf, pmbaf, pid or slo-batch"
SETTINGS = "threshold, least, most, first, step, sample, kp, ki, kd"
CONTROLLED = """
app: ferret
defaults: {batch: {controller: pid, settings: {kp: 20, sample: 1}, linger_ms: 2.5}}
compositions:
  - {name: "1", notation: Seq-Seq-Seq-Seq}
  - {name: "2", notation: Seq-Seq-Seq-Par, batch: {items: 5}}
  - {name: "3", notation: Seq-Seq-Par-Seq, batch: {bytes: 1000}}
  - {name: "4", notation: Seq-Par-Seq-Seq, batch: {settings: {kp: 30}}}
  - {name: "5", notation: Par-Seq-Seq-Seq, batch: {controller: auto}}
  - {name: "6", notation: Par-Seq-Seq-Par, batch: {controller: fixed, items: 7}}
"""


def test_a_controller_of_the_size_is_as_the_document_has_it() -> None:
    document = load(CONTROLLED, APPS)
    pid = SizeControl("pid", BatchSettings(steps=Steps(sample=1), gains=Gains(kp=20)))
    assert [each.batch for each in document.compositions] == [
        Batching(linger_ms=2.5, control=pid),
        Batching(5, linger_ms=2.5),
        Batching(max_bytes=1000, linger_ms=2.5, control=pid),
        Batching(linger_ms=2.5, control=SizeControl("pid", BatchSettings(gains=Gains(kp=30)))),
        Batching(linger_ms=2.5),
        Batching(7, linger_ms=2.5),
    ]
    assert load(dump("ferret", document.compositions), APPS).compositions == document.compositions


def test_a_batch_is_as_the_document_has_it_for_all_but_for_what_an_entry_says() -> None:
    one, two = (
        "{name: one, notation: Seq-Seq, batch: {linger_ms: 0}}",
        "{name: two, notation: Par-Seq, batch: {items: auto}}",
    )
    text = f"app: pair\ncompositions: [{one}, {two}]\ngenerate: {{max_workers: 2}}\n"
    document = load(f"{text}defaults: {{batch: {{items: 64, linger_ms: 2.5}}}}", APPS)
    first, second, *others = (each.batch for each in document.compositions)
    assert (first, second, set(others)) == (Batching(64), Batching(linger_ms=2.5), {Batching(64, linger_ms=2.5)})
    assert load(text, APPS).compositions[-1].batch is None
    assert "Seq-Seq" not in {each.name for each in document.compositions}, "a batch is no part of the shape"


@pytest.mark.parametrize(
    ("batch", "path", "sentence"),
    [
        ("{items: 0}", ".items", "must be auto, or a whole number from 1 to 100,000, not 0"),
        ("{items: }", ".items", "must be auto, or a whole number from 1 to 100,000, not nothing"),
        ("{bytes: 1.5}", ".bytes", "must be a whole number from 1 to 1,099,511,627,776, not 1.5"),
        ("{linger_ms: -1}", ".linger_ms", "must be a number from 0 to 60,000, not -1"),
        ("{size: 5}", ".size", "unknown key; accepted are items, bytes, linger_ms, controller, settings"),
        ("{controller: wild}", ".controller", f"must be {ONE_OF}, not the text 'wild'"),
        ("{controller: pid, settings: {kp: -1}}", ".settings", "kp = -1, must be in [0, 100,000]"),
        ("{controller: pid, settings: {k: 1}}", ".settings.k", f"unknown key; accepted are {SETTINGS}"),
        ("{controller: pid, settings: 5}", ".settings", f"must be a mapping with {SETTINGS}, not 5"),
        ("{controller: faf, items: 5}", "", "items = 5 is accepted with controller fixed only; faf chooses"),
        ("{controller: fixed}", "", "controller fixed needs items, a whole number from 1 to 100,000"),
        ("512", "", "must be a mapping with items, bytes, linger_ms, controller, settings, not 512"),
    ],
)
def test_what_is_no_batch_is_a_fault_at_its_path(batch: str, path: str, sentence: str) -> None:
    entry = f"{{name: x, notation: Seq-Seq-Seq-Seq, batch: {batch}}}"
    text = f"app: ferret\ndefaults: {{batch: {batch}}}\ncompositions: [{entry}]"
    faults = faults_of(text)
    assert faults.keys() == {f"defaults.batch{path}", f"compositions[0].batch{path}"}
    assert all(each.startswith(sentence) for each in faults.values()), faults


def test_generate_offers_as_many_replicas_as_workers_unless_it_is_told_which() -> None:
    document = load("app: synthetic\ngenerate: {max_workers: 12}", APPS)
    assert max(group.replicas for each in document.compositions for group in each.groups) == 12
    document = load("app: synthetic\ngenerate: {max_workers: 12, replicas: [1, 2]}", APPS)
    assert max(group.replicas for each in document.compositions for group in each.groups) == 2


def test_compositions_whose_workers_choose_are_generated_where_they_are_asked_for() -> None:
    text = "app: synthetic\ncompositions: [{{name: mine, notation: Dyn*3(lp)}}]\ngenerate: {{max_workers: 3{}}}"
    bound, both = (load(text.format(more), APPS).compositions for more in ("", ", dyn: [lp, ct, lp]"))
    assert [each.name for each in both if each not in bound] == ["Dyn*2(lp)", "Dyn*2(ct)", "Dyn*3(ct)"]
    assert not any(each.dyn for each in bound[1:])


def write(path: Path, notation: str, name: str = "x", app: str = "pair") -> None:
    """Writes a one-composition file whose time stamp differs from its last, however coarse the file system's clock."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(f"app: {app}\ncompositions: [{{name: {name}, notation: '{notation}'}}]\n", encoding="utf-8")
    os.utime(path, ns=(before + 10**9, before + 10**9))


def names(found: CompositionDirectory, app: str = "pair") -> dict[str, int]:
    return {each.name: each.workers for each in found.compositions(app)}


def test_files_of_all_folders_are_merged_in_order(tmp_path: Path) -> None:
    shipped, own = tmp_path / "shipped", tmp_path / "own"
    shipped.mkdir()
    own.mkdir()
    write(shipped / "b.yaml", "Seq-Par")
    write(shipped / "a.yml", "Seq-Seq")
    write(shipped / "c.yaml", "Par", app="one")
    write(shipped / "d.yaml", "Par-Seq", name="y")
    write(shipped / "notes.txt", "Seq-Nonsense")
    write(own / "a.yaml", "Par*5-Seq")
    both = CompositionDirectory([shipped, own], APPS)
    assert names(both) == {}
    assert both.refresh() == []
    assert names(both) == {"x": 6, "y": 3}
    assert names(both, "one") == {"x": 2}
    assert names(both, "unheard-of") == {}
    single = CompositionDirectory([own, shipped / "b.yaml"], APPS)
    single.refresh()
    assert names(single) == {"x": 3}


def test_a_faulty_file_is_refused_whole_and_what_it_gave_stays(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    write(file, "Seq-Seq")
    found = CompositionDirectory([tmp_path], APPS)
    found.refresh()
    write(file, "Par*7-Rubbish")
    (problem,) = found.refresh()
    assert str(problem).startswith(f"{file}: compositions[0].notation: expected Seq or Par at position 6")
    assert names(found) == {"x": 2}
    assert found.refresh() == [], "an unchanged file is reported once"
    write(file, "Par*7-Seq")
    assert found.refresh() == []
    assert names(found) == {"x": 8}


def test_a_removed_file_takes_its_compositions_along(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", "Seq-Seq", name="a")
    write(tmp_path / "b.yaml", "Seq-Seq", name="b")
    found = CompositionDirectory([tmp_path], APPS)
    found.refresh()
    (tmp_path / "a.yaml").unlink()
    assert found.refresh() == []
    assert names(found) == {"b": 2}


def test_what_cannot_be_read_is_a_problem_not_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.yaml", "Seq-Seq")
    refuse = PermissionError(13, "Permission denied")
    monkeypatch.setattr(Path, "open", lambda *_: (_ for _ in ()).throw(refuse))
    (problem,) = CompositionDirectory([tmp_path], APPS).refresh()
    assert str(problem) == f"{tmp_path / 'a.yaml'}: cannot be read: Permission denied"


def test_a_huge_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    with (tmp_path / "a.yaml").open("wb") as stream:
        stream.truncate(10**10)
    (problem,) = CompositionDirectory([tmp_path], APPS).refresh()
    assert "at most 1,048,576 are accepted" in str(problem)


def test_a_path_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CompositionError, match=r"compositions path .*nowhere does not exist"):
        CompositionDirectory([tmp_path / "nowhere"], APPS)


def test_watching_reads_changes_and_ends_when_told(tmp_path: Path) -> None:
    found = CompositionDirectory([tmp_path], APPS)
    stop, seen = threading.Event(), threading.Event()

    def report(problems: list[Problem]) -> None:
        if names(found) == {"x": 3}:
            seen.set()

    watcher = threading.Thread(target=found.watch, args=(stop, report), kwargs={"every_s": 0.1, "debounce_s": 0.05})
    watcher.start()
    write(tmp_path / "a.yaml", "Par-Seq")
    assert seen.wait(timeout=20)
    stop.set()
    watcher.join(timeout=20)
    assert not watcher.is_alive()
