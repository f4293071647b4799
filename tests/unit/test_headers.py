"""What is told in headers of messages."""

import pytest

from datapipe.sinks.port import MOST, line_of


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("it broke", "it broke"),
        ("Traceback\n  File 'ä.py'\r\nValueError:\tx\n", "Traceback File 'ä.py' ValueError: x"),
        ("\n", " "),
        ("a\0b\x7f\ud800\ufffe", r"a\x00b\x7f\ud800\ufffe"),
        ("x" * 9000 + "the end", "x" * (MOST // 2) + " ... " + "x" * (MOST // 2 - 7) + "the end"),
    ],
)
def test_a_header_is_one_line_that_can_be_printed_and_is_not_too_long(text: str, line: str) -> None:
    assert line_of(text) == line
    assert line.isprintable()
