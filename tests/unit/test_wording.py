"""Numbers in sentences."""

import re
from pathlib import Path

import pytest

from compositions.wording import apart, did_you_mean, figure, without_users

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("value", "digits", "said"),
    [
        (12_520.0, 4, "12,520"),
        (12_520.0, 3, "12,500"),
        (2100.4, 4, "2100"),
        (30.09, 4, "30.09"),
        (0.00001234, 3, "0.0000123"),
        (0.0, 3, "0"),
        (float("inf"), 3, "inf"),
    ],
)
def test_numbers_as_people_write_them(value: float, digits: int, said: str) -> None:
    assert figure(value, digits) == said


def test_no_sentence_of_a_decision_can_have_an_exponent() -> None:
    """``:.3g`` writes 1.25e+04."""
    folders = [ROOT / "control", ROOT / "profiler", ROOT / "service" / "cli"]
    lines = [line for folder in folders for path in folder.rglob("*.py") for line in path.read_text().splitlines()]
    assert [line for line in lines if re.search(r"\{[^{}]*:\.\d+g\}", line)] == []


def test_values_that_differ_are_written_apart() -> None:
    assert apart(359.0, 480.0) == ("359", "480")
    assert apart(1.23999, 1.24) == ("1.23999", "1.24")
    assert apart(100.00001, 100.0) == ("100.00001", "100")
    assert apart(1.2, 1.2) == ("1.2", "1.2")


def test_a_name_is_suggested_only_if_it_is_close() -> None:
    assert did_you_mean("resise", ["load", "resize"]) == " (did you mean 'resize'?)"
    assert did_you_mean("x", ["load", "resize"]) == did_you_mean(7, ["7"]) == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rtsp://admin:it's@cam/1", "rtsp://cam/1"),
        ("kafka://u:pa/ss@h:1/t", "kafka://h:1/t"),
        ("amqp://u@h and http://a:b@c", "amqp://h and http://c"),
        ("https://example.com/users/foo@bar.com/x", "https://example.com/users/foo@bar.com/x"),
        ("https://h/?mail=x@y", "https://h/?mail=x@y"),
        ("GET /?token=abc&x=1", "GET /?token=…&x=1"),
    ],
)
def test_addresses_are_told_without_passwords_and_otherwise_as_they_are(text: str, shown: str) -> None:
    assert without_users(text) == shown
