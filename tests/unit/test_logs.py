"""Logs are JSON lines, ours and the libraries' alike, and hold no secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
import structlog
from fastapi.testclient import TestClient

from service import logs
from service.api import create_app
from service.api.guard import Access
from service.daemon.fakes.fake_daemon import fake_daemon
from service.daemon.storing.store import DaemonStore


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Logging as it was, after the test."""
    root = logging.getLogger()
    handlers, level, config = root.handlers[:], root.level, structlog.get_config()
    yield
    root.handlers[:], root.level = handlers, level
    structlog.configure(**config)


def test_lines_of_json_from_structlog_and_the_standard_library(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info")
    structlog.get_logger().info("runner up", app="synthetic")
    logging.getLogger("uvicorn.error").warning("by %s", "uvicorn")
    structlog.get_logger().debug("too quiet")
    logging.getLogger("httpx").info("noise")
    first, second = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert (first["event"], first["app"], first["level"]) == ("runner up", "synthetic", "info")
    assert first["at"].endswith("Z")
    assert (second["event"], second["level"]) == ("by uvicorn", "warning")


def test_on_a_terminal_lines_are_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", console=True)
    structlog.get_logger().info("runner up", app="synthetic")
    written = capsys.readouterr().err
    assert "runner up" in written
    assert not written.startswith("{")


def test_tokens_and_bodies_stay_out(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("debug")
    state = DaemonStore(None)
    application = create_app(fake_daemon(state), Access(token="s3cret"))
    with TestClient(application, base_url="http://localhost") as client:
        for token in ("s3cret", "wr0ng"):
            headers = {"authorization": f"Bearer {token}"}
            client.post("/apps/synthetic/start", json={"source": {"kind": "push"}}, headers=headers)
            client.post("/apps/synthetic/items", json="pr1vate", headers=headers)
            client.post("/slo", json={"app": "pr1vate"}, headers=headers)
    state.close()
    written = capsys.readouterr().err
    assert "runner up" in written
    assert not any(secret in written for secret in ("s3cret", "wr0ng", "pr1vate"))
