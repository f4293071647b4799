"""The line an editor marks."""

from __future__ import annotations

import pytest

from compositions.document import loader
from compositions.document.positions import line_of
from compositions.errors import CompositionError, Fault
from compositions.model import Stage

STAGES = {"synthetic": [Stage("f1"), Stage("f2"), Stage("f3")]}
TEXT = """\
app: synthetic
defaults: {replicas: 0}
compositions:
  - name: a
    groups:
      - stages: [f1, f2]
      - stages: [f3]
        replicas: -1
  - {name: b,
     notation: "Seq-Par(f9)-Seq"}
  - name: c
    notation: Par-Par-Par
    colour: red
"""


def faults_of(text: str) -> dict[str, int | None]:
    with pytest.raises(CompositionError) as refused:
        loader.load(text, STAGES)
    return {fault.path: line_of(text, fault) for fault in refused.value.faults}


def test_every_fault_of_a_document_lies_where_it_was_written() -> None:
    found = faults_of(TEXT)
    assert found.pop("defaults.replicas") == 2
    assert found.pop("compositions[0].groups[1].replicas") == 8
    assert found.pop("compositions[1].notation") == 10
    assert found.pop("compositions[2].colour") == 13
    assert not found


def test_what_is_missing_lies_where_it_should_be() -> None:
    assert faults_of("app: synthetic\ncompositions:\n  - notation: Par-Par-Par\n") == {"compositions[0].name": 3}


def test_text_that_is_no_yaml_says_the_line_itself() -> None:
    assert list(faults_of("app: synthetic\ncompositions: [\n  - name\n").values()) in ([3], [4])


@pytest.mark.parametrize(("text", "path"), [("", "app"), ("a: [", "a"), ("- 1", "x.y"), ("a: 1", "")])
def test_no_line_is_invented(text: str, path: str) -> None:
    assert line_of(text, Fault(path, "wrong")) in (None, 1)


def test_names_with_odd_characters_are_found() -> None:
    text = "app: synthetic\n'odd name.x': 1\n"
    assert faults_of(text)["'odd name.x'"] == 2
