"""Logs are JSON lines, ours and the libraries' alike, and hold no secrets; what apps print comes by whole lines."""

import json
import logging
import re
import threading
from collections.abc import Iterator
from contextlib import redirect_stdout

import pytest
import structlog
from fastapi.testclient import TestClient

from apps import registry
from control.decisions import State
from service import logs
from service.api import create_app
from service.api.guard import Access
from service.daemon.store.store import DaemonStore
from service.logs import LINES_PER_S, Printed, PrintedHere
from service.schemas.base import json_of
from service.schemas.results import Summary
from service.schemas.spec import RunSpec
from service.schemas.status import Status, resting
from tests.support.fakes import fake_daemon


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


def test_passwords_in_addresses_stay_out_whoever_writes_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    recent = logs.Recent()
    logs.configure("info", recent=recent)
    lines = (
        "rtsp://me:s3cret@camera/1 is away",
        "%3|FAIL|rdkafka#consumer-1| me:x@y is none, kafka://me:s3/cr3t@broker:9092/bootstrap is",
        '"WebSocket /?token=s3cret" 403',
        "jdbc:postgresql://db/x?user=me&password=s3cret&ssl=true",
    )
    for line in lines:
        logging.getLogger("library").warning(line)
        structlog.get_logger().warning("printed", line=line, about=ValueError(line))
    try:
        raise ValueError(lines[0])
    except ValueError:
        structlog.get_logger().exception("broken")
    written = capsys.readouterr().err
    kept = str(recent.read(None, 0, 100))
    for text in (written, kept):
        assert not re.search("s3cret|cr3t", text)
        for left in ("rtsp://camera/1 is away", "kafka://broker:9092/bootstrap", "me:x@y", "/?token=…", "…&ssl=true"):
            assert left in text
    logs.configure("info", console=True)
    logging.getLogger("library").warning(lines[0])
    assert "s3cret" not in capsys.readouterr().err


def test_what_went_wrong_is_told_without_passwords() -> None:
    status = resting(registry.find("synthetic"), State.FAILED, RunSpec(app="synthetic"), None)
    body = status.model_dump() | {"failure": "rtsp://me:s3cret@h/1 is away", "held_up": "s3://KEY:S3/cret@bucket is"}
    told = Status.model_validate(body)
    assert (told.health.failure, told.health.held_up) == ("rtsp://h/1 is away", "s3://bucket is")
    failed = status.but(health=status.health.failed(body["failure"]))
    assert json.loads(json_of(failed))["failure"] == told.health.failure
    assert Summary(run="r", failure="amqp://me:s3cret@h:1/x").failure == "amqp://h:1/x"


@pytest.mark.parametrize(
    ("line", "level", "event", "fields"),
    [
        ('{"app": "a", "event": "died", "level": "warning", "at": "now"}', "warning", "died", {"app": "a"}),
        ("item \x1b[31m7\x1b[0m", "info", "printed", {"line": "item 7"}),
        ('{"event": "x", "level": "loud", "at": "now"}', "info", "printed", None),
        ('{"event": "x", "level": "info", "at": 1, "self": 1, "by": "another"}', "info", "x", {}),
        ('{"a":' * 100_000, "info", "printed", None),
        ("[2026-11-23 17:40:03,123 E 4711 4711] core_worker.cc:5: x", "debug", "ray", None),
        ("    @     0x7f12ab34 (unknown)", "debug", "ray", None),
    ],
)
def test_lines_of_others_keep_their_level(line: str, level: str, event: str, fields: dict[str, str] | None) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG))
    with structlog.testing.capture_logs() as seen:
        logs.relay("recompose-1-a-runner pid=7", line)
    (told,) = seen
    assert (told["log_level"], told["event"], told["by"]) == (level, event, "recompose-1-a-runner pid=7")
    rest = {name: value for name, value in told.items() if name not in ("log_level", "event", "by")}
    assert rest == ({"line": line} if fields is None else fields)


@pytest.mark.parametrize("readable", [False, True])
def test_the_log_has_one_form(readable: bool, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(console=readable)
    structlog.get_logger().info("begun")
    logging.getLogger("uvicorn").warning("shaky")
    logs.relay("w1", '{"event": "worker died", "level": "warning", "at": "now"}')
    lines = capsys.readouterr().err.splitlines()
    form = r"\[(info|warning) *\] \w.* at=20" if readable else r'\{.*"level": "(info|warning)".*\}'
    assert [bool(re.match(form, line)) for line in lines] == [True] * 3, lines
    assert not any("\x1b" in line for line in lines)


# --- what apps print --------------------------------------------------------------------------------------------------


class Told:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.now_s = 0.0
        self.printed = Printed(lambda who, line: self.lines.append((who, line)), lambda: self.now_s)


def test_what_is_too_much_for_a_second_is_counted_and_told() -> None:
    told = Told()
    for number in range(LINES_PER_S + 1234):
        told.printed.line("w1", str(number))
    assert told.lines == [("w1", str(number)) for number in range(LINES_PER_S)]
    told.now_s = 1.0
    told.printed.line("w1", "the next second")
    left_out = ("recompose", "1,234 lines left out; at most 200 a second are shown")
    assert told.lines[LINES_PER_S:] == [left_out, ("w1", "the next second")]
    told.printed.close()
    assert told.lines[-1] == ("w1", "the next second")


def test_lines_of_threads_do_not_mix_and_a_begun_one_waits_for_its_end() -> None:
    told, begun, go = Told(), threading.Event(), threading.Event()

    def other() -> None:
        print("from ", end="")
        begun.set()
        assert go.wait(10)
        print("another")

    with redirect_stdout(PrintedHere(told.printed)):
        worker = threading.Thread(target=other, name="recompose-w7")
        worker.start()
        assert begun.wait(10)
        print("two\nlines")
        go.set()
        worker.join()
    main_thread = threading.current_thread().name
    assert told.lines == [(main_thread, "two"), (main_thread, "lines"), ("w7", "from another")]
