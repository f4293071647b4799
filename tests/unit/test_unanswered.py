"""A source whose place does not answer: told where people look, and once."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from apps.contract import App
from compositions.model import Stage
from datapipe.sources import fed, inbox
from datapipe.sources.fed import Fed, Message
from datapipe.sources.inbox import Inbox, Letter
from service.runner.rpc.requests import ReadStatus, Start
from service.runner.runner import Runner
from service.schemas.spec import RunSpec, SourceSpec
from tests.support.waiting import eventually

WHYS = ("nobody listens", "nobody listens", "nobody listens", "no such topic", "no such topic")
TOLD = ["nobody listens", "no such topic"]


class Numbers(App):
    name = "numbers"
    stages = (Stage("s"),)


class Away:
    """Answers after a while, as a feed or a box."""

    ended = False

    def __init__(self, message: Message | Letter) -> None:
        self.whys, self.message = list(WHYS), message

    def open(self, positions: object = None) -> None:
        if self.whys:
            raise OSError(self.whys.pop(0))

    seek = open

    def poll(self, most: int, wait_s: float) -> Sequence[Any]:
        return [self.message]

    def close(self, letters: object = None) -> None: ...

    acknowledge = close


@pytest.mark.usefixtures("talkative")
@pytest.mark.parametrize(("source", "message"), [(Fed, Message("p", 1, b"7")), (Inbox, Letter("p", b"7", 1))])
def test_a_reason_is_logged_once_until_it_answers(source: Any, message: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fed, "AGAIN_S", 0.0)
    monkeypatch.setattr(inbox, "AGAIN_S", 0.0)
    with capture_logs() as logs:
        made = source(Numbers(), Away(message), lambda: 0.0)
        assert made.fault is None
        assert made.read(1, math.inf).values == [7]
        made.close()
    assert [line["error"] for line in logs if line["log_level"] == "warning"] == TOLD
    assert [line["event"] for line in logs if line["log_level"] == "info"] == ["source answers again"]
    assert made.fault is None


def test_the_status_says_so() -> None:
    pytest.importorskip("redis", reason="redis is not installed; it is in extra redis")
    source = SourceSpec(kind="redis", path="redis://127.0.0.1:1/0?stream=nobody")
    runner = Runner(RunSpec(app="synthetic", pool="local", source=source))
    runner.ask(Start())
    try:
        why = "the source does not answer and is asked again: source redis"
        eventually(lambda: str(runner.ask(ReadStatus()).health.held_up), lambda told: why in told)
    finally:
        runner.kill()
