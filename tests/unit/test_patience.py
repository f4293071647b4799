"""A run whose loop is held up is waited for: told once, ended never."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from apps import registry
from apps.contract import App
from compositions.model import Stage
from service.runner.rpc.port import Patient
from service.runner.rpc.requests import ReadStatus, ReadSummary, Request, Start
from service.runner.runner import Runner
from service.schemas.spec import RunSpec, SourceSpec

PATIENCE_S = 20.0


class Blocking(App):
    """Its output keeps the loop until ``go``."""

    name = "blocking"
    stages = (Stage("work"),)
    entered, go = threading.Event(), threading.Event()

    def items(self, path: Path | None) -> Iterator[Any]:
        return iter(range(3))

    def work(self, value: Any) -> Any:
        return value

    def open_output(self, path: Path) -> Any:
        return self

    def write(self, serial: int, value: Any) -> None:
        self.entered.set()
        assert self.go.wait(PATIENCE_S)

    def close(self) -> None: ...


class Freed(Runner):
    """Its output goes on once somebody was not answered."""

    late = 0

    def ask(self, request: Request[Any], *, timeout_s: float = 5.0) -> Any:
        try:
            return super().ask(request, timeout_s=timeout_s)
        except TimeoutError:
            self.late += 1
            Blocking.go.set()
            raise


def test_a_run_whose_output_blocks_goes_on_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "create", lambda *_: Blocking())
    runner = Freed(RunSpec(app="blocking", pool="local", source=SourceSpec(loop=False), out_path="blocked.out"))
    runner.ask(Start())
    assert Blocking.entered.wait(PATIENCE_S)
    with capture_logs() as logs:
        Patient(runner, answer_s=0.05).ask(ReadStatus())
    assert (runner.late >= 1, len(logs)) == (True, 1)
    assert runner.wait(PATIENCE_S)
    items = runner.ask(ReadSummary()).items
    assert items is not None
    assert (items.delivered, items.lost) == (3, 0)
