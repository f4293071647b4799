"""The status, the start body and the stored spec keep their flat fields.

``wire_forms.json`` was written when all fields of these models still stood in one class.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from service.schemas.base import plain
from service.schemas.requests import StartRequest
from service.schemas.spec import RunSpec
from service.schemas.status import Status

EXPECTED = json.loads((Path(__file__).parent / "wire_forms.json").read_text(encoding="utf-8"))
MODELS: dict[str, type[BaseModel]] = {"status": Status, "start": StartRequest, "spec": RunSpec}


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
