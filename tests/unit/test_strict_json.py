"""JSON of strangers: what is refused, and that the work to refuse it grows linearly. The status, the start body and the
stored spec keep their flat fields: ``wire_forms.json`` was written when each model still was one class."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from compositions.document import apart, safe_yaml
from compositions.document.loader import load
from compositions.document.safe_yaml import Positions
from compositions.errors import CompositionError, Fault
from compositions.model import Stage
from service.api import strict_json
from service.schemas.base import plain
from service.schemas.requests import StartRequest
from service.schemas.spec import RunSpec
from service.schemas.status import Status

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
EXPECTED = json.loads((Path(__file__).parent / "wire_forms.json").read_text(encoding="utf-8"))
MODELS: dict[str, type[BaseModel]] = {"status": Status, "start": StartRequest, "spec": RunSpec}


@given(VALUES, st.booleans())
def test_what_is_json_is_read_as_by_python(value: Any, escaped: bool) -> None:
    text = json.dumps(value, ensure_ascii=escaped)
    assert strict_json.parse_json(text.encode("utf-8", "surrogatepass")) == value


def test_as_deep_as_is_accepted() -> None:
    assert strict_json.parse_json(b"[" * 64 + b"]" * 64) is not None


class Counted(str):
    """A key that counts how often it is compared with another."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)


def test_a_repeated_key_is_found_in_linear_time() -> None:
    compared = []
    for count in (2000, 4000):
        Counted.compared = 0
        pairs = [(Counted(number), None) for number in (*range(count), count - 1)]
        with pytest.raises(strict_json.JsonRefusedError, match=f"'{count - 1}' is given twice"):
            strict_json._object(pairs)
        compared.append(Counted.compared)
    assert compared[1] < 3 * compared[0] + 20


def test_faults_of_a_document_are_located_by_reading_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "".join(f"  - {{name: n{number}, notation: Foo}}\n" for number in range(50))
    text = f"app: a\ncompositions:\n{lines}"
    with pytest.raises(CompositionError) as refused:
        load(text, {"a": [Stage("s")]})
    positions, composed = Positions(text), Mock(wraps=safe_yaml.yaml.compose)
    monkeypatch.setattr(safe_yaml.yaml, "compose", composed)
    assert [positions.line_of(fault) for fault in refused.value.faults] == list(range(3, 53))
    assert positions.line_of(Fault("compositions[0].none", "x")) == 3
    composed.assert_called_once()


def test_a_large_document_is_read_in_another_process_with_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    stages, lines = {"a": [Stage("s")]}, "".join(f"  - {{name: n{number}, notation: Seq}}\n" for number in range(3000))
    sound, faulty = f"app: a\ncompositions:\n{lines}", f"app: a\ncompositions:\n{lines}  - {{name: x}}\n"
    there = load(sound, stages)
    with pytest.raises(CompositionError) as refused:
        load(faulty, stages)
    monkeypatch.setattr(apart.loader, "load", lambda *_: pytest.fail("it was read in this process"))
    assert apart.load(sound, stages) == there
    with pytest.raises(CompositionError) as refused_apart:
        apart.load(faulty, stages)
    assert refused_apart.value.faults == refused.value.faults


def test_a_document_of_more_values_than_anybody_needs_is_refused_while_it_is_read() -> None:
    with pytest.raises(CompositionError, match=r"line \d+, column 3: more than 100,000 keys and values"):
        load("app: a\ncompositions:\n" + "- a\n" * 110_000, {"a": [Stage("s")]})


def bare(part: Any) -> Any:
    """A schema without its prose."""
    if isinstance(part, dict):
        prose = ("title", "description")
        return {key: bare(value) for key, value in part.items() if key not in prose or not isinstance(value, str)}
    return [bare(each) for each in part] if isinstance(part, list | tuple) else part


def changes(now: Any, before: Any, at: str) -> list[str]:
    """Return the places where something that there was is gone or another. Fields and values may be added."""
    if isinstance(before, dict) and isinstance(now, dict):
        gone = [f"{at}.{key}" for key in before if key not in now]
        return gone + [each for key in before if key in now for each in changes(now[key], before[key], f"{at}.{key}")]
    if isinstance(before, list) and isinstance(now, list):
        return [f"{at}: {each}" for each in before if all(changes(other, each, at) for other in now)]
    return [] if now == before else [at]


@pytest.mark.parametrize(("name", "mode"), [("status", "serialization"), ("start", "validation")])
def test_the_schema_has_the_fields_that_it_had(name: str, mode: Any) -> None:
    before, now = EXPECTED[name]["schema"], bare(MODELS[name].model_json_schema(mode=mode))
    assert sorted(now.get("required", [])) == sorted(before.get("required", []))
    changed = [part for part in ("properties", "$defs") for part in changes(now[part], before[part], part)]
    assert changed == []


@pytest.mark.parametrize("name", MODELS)
def test_an_example_comes_back_as_it_was(name: str) -> None:
    for example in EXPECTED[name]["examples"]:
        read = MODELS[name].model_validate_json(json.dumps(example))
        assert plain(read).items() >= example.items()
        assert name == "spec" or plain(read) == example
        assert MODELS[name].model_validate(read.model_dump()) == read


def test_a_stored_spec_has_all_its_fields() -> None:
    stored = EXPECTED["spec"]["stored"]
    assert json.loads(RunSpec.model_validate(stored).model_dump_json()) == stored
