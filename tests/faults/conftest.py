"""The rigs are modules beside the tests, and no packages."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "contract")]

from runners import Process  # noqa: E402


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    """Whatever a test puts in ends with it."""
    started: list[Process] = []
    yield started
    for each in started:
        each.end()
