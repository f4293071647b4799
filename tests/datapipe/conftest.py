"""One Spark session for all tests of the folder: a JVM takes seconds to start."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

sys.path.insert(0, str(Path(__file__).parent))

from datapipe.spark.session import NoJava, java_home, open_session
from service import logs
from service.cli import main


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


@pytest.fixture
def in_session(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs a command in this process and in the session of all tests."""
    monkeypatch.setattr(logs, "configure", lambda *_, **__: None)
    for module in ("datapipe.spark.session", "service.cli.telemetry"):
        monkeypatch.setattr(f"{module}.open_session", lambda *_: nullcontext(spark))

    def recompose(*words: Any, code: int = 0) -> Result:
        done = CliRunner().invoke(main, [*map(str, words)])
        assert done.exit_code == code, done.output
        return done

    return recompose
