"""One Spark session for all tests of the folder: a JVM takes seconds to start."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from datapipe.spark.session import NoJava, java_home, open_session


@pytest.fixture(scope="session", autouse=True)
def java() -> None:
    try:
        java_home()
    except NoJava as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    session = open_session("tests", "local[2]")
    yield session
    session.stop()
