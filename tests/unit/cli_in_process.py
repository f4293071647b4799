"""Command lines whose requests go to an application in the test's process."""

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fastapi.testclient import TestClient

from service.cli import clients, main, runs, start
from service.cli.http import Client

Invoke = Callable[..., Result]


def invoking(http: TestClient, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Return a function that runs a command line."""

    class InProcess(Client):
        def __init__(self, url: str) -> None:
            super().__init__(url)
            self._http.close()
            self._http = http

        def request(self, method: str, path: str, timeout: float = 0.0, **rest: Any) -> Any:
            """Nothing is waited for in one process."""
            return super().request(method, path, **rest)

        def close(self) -> None: ...

    for module in (clients, start, runs):
        monkeypatch.setattr(module, "Client", InProcess)
    return lambda *words, **given: CliRunner().invoke(main, list(words), **given)


def told(result: Result, code: int = 0) -> str:
    """What a command says that ends with this code."""
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr
