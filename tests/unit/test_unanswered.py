"""A source whose place does not answer: told where people look, and once."""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from threading import Event
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from apps.contract import App
from compositions.model import Stage
from datapipe.sources import fed, inbox
from datapipe.sources.fed import Fed, Message
from datapipe.sources.inbox import Inbox, Letter
from service.runner.rpc.requests import ReadStatus, Start
from service.runner.runner import Runner
from service.schemas.spec import RunSpec, SourceSpec

WHYS = ("nobody listens", "nobody listens", "nobody listens", "no such topic", "no such topic")
TOLD = ["nobody listens", "no such topic"]


class Numbers(App):
    name = "numbers"
    stages = (Stage("s"),)


class Away:
    """Answers after a while, as a feed or a box."""

    ended = False

    def __init__(self) -> None:
        self.whys = list(WHYS)

    def open(self) -> None:
        if self.whys:
            raise OSError(self.whys.pop(0))

    def seek(self, positions: object) -> None:
        self.open()

    def poll(self, most: int, wait_s: float) -> Sequence[Any]:
        return [self.kind(*self.body)]

    def acknowledge(self, letters: object) -> None: ...

    def close(self) -> None: ...


class AwayFeed(Away):
    kind, body = Message, ("p", 1, b"7")


class AwayBox(Away):
    kind, body = Letter, ("p", b"7", 1)


@pytest.fixture
def everything_logged() -> Iterator[None]:
    """A script's run, in a test before, may have left warnings alone."""
    config = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    yield
    structlog.configure(**config)


@pytest.mark.usefixtures("everything_logged")
@pytest.mark.parametrize(
    "source", [lambda: Fed(Numbers(), AwayFeed(), lambda: 0.0), lambda: Inbox(Numbers(), AwayBox(), lambda: 0.0)],
    ids=["with positions", "with acknowledgement"],
)  # fmt: skip
def test_each_reason_is_logged_once_and_forgotten_when_it_answers(
    source: Callable[[], Fed | Inbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fed, "AGAIN_S", 0.0)
    monkeypatch.setattr(inbox, "AGAIN_S", 0.0)
    with capture_logs() as logs:
        made = source()
        assert made.fault is None
        portion = made.read(1, math.inf)
        made.close()
    assert portion is not None
    assert portion.values == [7]
    assert [line["error"] for line in logs if line["log_level"] == "warning"] == TOLD
    assert [line["event"] for line in logs if line["log_level"] == "info"] == ["source answers again"]
    assert made.fault is None


def test_the_status_says_so() -> None:
    pytest.importorskip("redis", reason="redis is not installed; it is in extra redis")
    source = SourceSpec(kind="redis", path="redis://127.0.0.1:1/0?stream=nobody")
    runner = Runner(RunSpec(app="synthetic", pool="local", source=source))
    runner.ask(Start())
    waiting = Event()
    try:
        assert any(
            "the source does not answer and is asked again: source redis" in str(told)
            for _ in range(1500)
            if (told := runner.ask(ReadStatus()).health.held_up) is not None or waiting.wait(0.02)
        ), runner.ask(ReadStatus())
    finally:
        runner.kill()
