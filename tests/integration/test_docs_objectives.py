"""What ``docs/guide/objectives.md`` says on a line: the words of the command line ask for what the body asks for."""

import json
import re

import pytest
from markdown import ROOT
from pydantic import TypeAdapter

from profiler.slo import parse_slo
from service.schemas.requests import SloRequest

_ROWS = re.findall(
    r"^\|[^|]+\| `([^`' ]+)` \| `(\{\"metric[^`]+\})` \|$",
    (ROOT / "docs" / "guide" / "objectives.md").read_text(),
    re.MULTILINE,
)


def test_there_are_rows() -> None:
    assert len(_ROWS) == 6


@pytest.mark.parametrize(("words", "body"), _ROWS)
def test_words_and_body_ask_for_the_same(words: str, body: str) -> None:
    asked = TypeAdapter(SloRequest).validate_python({"app": "ferret", **json.loads(body)})
    assert asked.slo() == parse_slo(words)
