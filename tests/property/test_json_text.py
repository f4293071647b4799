"""JSON of streams is read and written by faster ways than the standard library's, with the same outcome."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datapipe.sources.fed import _plain
from service.runner.wiring.result_buffer import JSON, text_of

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers() | st.none(), inner),
)


def meaning(parse: Callable[[bytes], Any], body: bytes) -> str:
    try:
        return repr(parse(body))
    except ValueError:
        return "none"


@given(VALUES)
def test_a_text_is_that_of_the_standard_library(value: Any) -> None:
    assert text_of(value) == JSON(value)


@given(VALUES)
def test_a_body_means_what_the_standard_library_says(value: Any) -> None:
    body = json.dumps(value).encode()
    assert _plain(body) == json.loads(body)


@given(st.binary(max_size=12) | st.text('[]{},:"\\0123456789eE.-+ ntrufalsd', max_size=12).map(str.encode))
def test_what_is_no_json_is_refused_as_by_the_standard_library(body: bytes) -> None:
    assert meaning(_plain, body) == meaning(json.loads, body)


@pytest.mark.parametrize("body", ['"\ud800"'.encode("utf-8", "surrogatepass"), '{"ä": 1}'.encode("utf-16"), b"NaN"])
def test_what_only_the_standard_library_takes_is_taken(body: bytes) -> None:
    assert repr(_plain(body)) == repr(json.loads(body))
