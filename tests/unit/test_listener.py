"""Check how ``recompose serve`` listens, on a real socket, and what its file may say and does."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import uvicorn
from structlog.testing import capture_logs
from uvicorn.server import ServerState

from profiler.budget import Budget
from profiler.slo import parse_slo, together
from service.api.guard import USER, Access, Guard
from service.cli import listener
from service.cli.configured import ConfigRefused, Configured, ServiceConfig, configured, options_of, read_config
from service.cli.serve import serve
from service.daemon.daemon import Daemon
from service.daemon.store.store import DaemonStore
from tests.support.fakes import fake_daemon
from tests.support.waiting import wait_until

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bytes]]


async def _answers(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def talked(*talks: Talk, app: Any = _answers) -> list[bytes]:
    """What each of ``talks`` brought home, one after the other, each over a connection of its own that stays open."""

    async def all_of_them() -> list[bytes]:
        config = uvicorn.Config(app, log_config=None, access_log=False)
        config.load()
        state = ServerState()
        with listener.listen("127.0.0.1", 0) as listening:
            loop = asyncio.get_running_loop()
            server = await loop.create_server(lambda: listener.BoundedProtocol(config, state, {}), sock=listening.dup())
            connections = [await asyncio.open_connection(*listening.getsockname()) for _ in talks]
            found = [await talk(*connection) for talk, connection in zip(talks, connections, strict=True)]
            for _, writer in connections:
                writer.close()
            server.close()
            await server.wait_closed()
        return found

    return asyncio.run(all_of_them())


ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF_A_HEAD = b"GET / HTTP/1.1\r\nHost: loc"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\n"


async def _asks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    writer.write(ASK)
    return await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(2)


def sends(data: bytes, first: Talk | None = None) -> Talk:
    """Return a talk that sends this, and nothing more, behind the talk that comes ``first``."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        if first is not None:
            assert (await first(reader, writer)).startswith(b"HTTP/1.1 200 ")
        writer.write(data)
        return await reader.read()

    return talk


async def _waits(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    return b""


def test_what_is_accepted_sends_at_once() -> None:
    """Without TCP_NODELAY every answer on a kept-alive connection waited 40 ms for the peer's acknowledgement."""

    found: list[int] = []

    async def looks(scope: Any, receive: Any, send: Any) -> None:
        accepted = scope[USER].__self__.transport.get_extra_info("socket")
        found.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        await _answers(scope, receive, send)

    talked(_asks, app=looks)
    assert found == [1]


SLOW = b"the headers of the request took longer than 0.01 s; send them at once"


@pytest.mark.parametrize(
    ("talk", "limits", "status", "told"),
    [
        (sends(HALF_A_HEAD), {"HEAD_S": 0.01}, 408, SLOW),
        (sends(b""), {"HEAD_S": 0.01}, 408, SLOW),
        (sends(HALF_A_HEAD, first=_asks), {"HEAD_S": 0.01}, 408, SLOW),
        (sends(HALF_A_HEAD + b"x" * 100), {"MAX_HEAD_BYTES": 100}, 431, b"are larger than 100 bytes; send less"),
        (sends(b"hello there\r\n\r\n"), {}, 400, b"this is not a request of HTTP/1.1"),
    ],
    ids=["half a head", "nothing", "half a second head", "more head than allowed", "no HTTP"],
)
def test_headers_that_do_not_come_or_are_none_are_refused_in_a_sentence(
    talk: Talk, limits: dict[str, float], status: int, told: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in limits.items():
        monkeypatch.setattr(listener, name, value)
    answer = talked(talk)[0]
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert b"application/problem+json" in answer
    assert told in answer


def test_a_body_that_cannot_be_read_is_told_so() -> None:
    async def waits_for_the_body(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    answer = talked(sends(POST + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n"), app=waits_for_the_body)[0]
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"its body cannot be read" in answer


def test_a_refusal_is_not_written_into_an_answer_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answers_half(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"ok", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass

    monkeypatch.setattr(listener, "HEAD_S", 0.01)
    answer = talked(sends(ASK + b"GET / HT"), app=answers_half)[0]
    assert answer.endswith(b"\r\n\r\nok")
    assert b"408" not in answer


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    half = sends(POST + b"Content-Length: 10\r\n\r\nhalf")
    answer = talked(half, app=Guard(_answers, Access(body_s=0.01)))[0]
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the body of the request took longer than 0.01 s" in answer


def test_a_connection_too_many_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "MAX_CONNECTIONS", 2)
    first, second, third = talked(_waits, _asks, sends(b""))
    assert first == b""
    assert second.startswith(b"HTTP/1.1 200 ")
    assert third.startswith(b"HTTP/1.1 503 ")
    assert b"2 connections are open already; close one or try again later" in third


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize("asked", ["the kernel", "its tables"])
def test_the_user_behind_a_connection_is_known(address: str, asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one who speaks IPv4 through a socket of IPv6."""
    if asked == "its tables":
        monkeypatch.setattr(listener, "SOCK_DIAG", 31)  # a family that there is not: the kernel takes no question
    here = address.removeprefix("::ffff:")
    with listener.listen(here, 0) as listening:
        port = listening.getsockname()[1]
        with socket.create_connection((address, port)) as client:
            ends = (here, client.getsockname()[1]), (here, port)
            assert listener.user_behind(*ends) == os.geteuid()
            client.shutdown(socket.SHUT_WR)
            assert listener.user_behind(*ends) == os.geteuid(), "it still reads"
        assert listener.user_behind(*ends) is None, "the kernel shows user 0 now, who is not there"


def test_a_user_of_another_namespace_is_nobody_in_particular(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_asked", lambda *ends: (1, listener.NOBODY, 7))
    assert listener.user_behind(("127.0.0.1", 1), ("127.0.0.1", 2)) is None


def test_without_a_token_only_the_users_that_may_are_let_in() -> None:
    own, others = frozenset({os.geteuid()}), frozenset({os.geteuid() + 1})
    asks = sends(b"GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert talked(asks, app=Guard(_answers, Access(users=own)))[0].startswith(b"HTTP/1.1 200")
    answer = talked(asks, app=Guard(_answers, Access(users=others)))[0]
    assert answer.startswith(b"HTTP/1.1 403")
    assert f"user {os.geteuid()} of this machine is refused".encode() in answer
    assert b"RECOMPOSE_TOKEN" in answer
    assert talked(_asks, app=Guard(_answers, Access(users=others)))[0].startswith(b"HTTP/1.1 200"), "the page is open"


# --- what the file of recompose serve may say, and what becomes of a change -------------------------------------------


GOOD = """
service: {port: 9090, apps: [own], state: here, telemetry: false}
apps:
  synthetic:
    source: push
    input: {rate_per_s: 10}
    slo: [p95<=400ms, throughput=input_rate]
    budget: {workers: 4}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "own").mkdir()
    (tmp_path / "service.yaml").write_text(GOOD)
    return tmp_path / "service.yaml"


@pytest.fixture
def daemon(disk: DaemonStore) -> Iterator[Daemon]:
    made = fake_daemon(disk, ("synthetic", "ferret"))
    yield made
    made.close(drain=False)


def config(text: str, folder: Path) -> ServiceConfig:
    (folder / "changed.yaml").write_text(text)
    return read_config(folder / "changed.yaml")


def test_it_says_how_to_serve_and_what_to_run(file: Path) -> None:
    read = read_config(file)
    app = read.apps["synthetic"]
    assert app.objective == together([parse_slo("p95<=400ms"), parse_slo("throughput=input_rate")], Budget(workers=4))
    assert app.spec("synthetic").source.kind == "push"
    folder = file.parent
    expected = {"port": 9090, "apps_dirs": [f"{folder}/own"], "state_dir": f"{folder}/here", "telemetry": False}
    assert options_of(read.service, folder) == expected


def test_options_on_the_command_line_win(file: Path) -> None:
    with click.Context(serve) as context:
        serve.parse_args(context, ["--config", str(file), "--port", "7070"])
    assert context.params["port"] == 7070
    assert context.params["apps_dirs"] == (file.parent / "own",)
    assert context.params["telemetry"] is False


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("apps: {x: {slo: p95<=fast}}", "apps.x.slo: 'p95<=fast' is not accepted: .*'fast' is not a number with a"),
        ("apps: {x: {rate: 3}}", "apps.x.rate: is not a known field"),
        ("apps: {x: {input: {rate_per_s: -1}}}", "apps.x.input.rate_per_s: -1 is not accepted: .* greater than 0"),
        ("apps: {x: {source: fax}}", r"apps.x.source.kind: is not accepted: .*'replay'"),
        ("apps: {x: {source: kafka}}", r"apps.x.source: source kafka needs a path, such as kafka://HOST:9092/TOPIC"),
        ("apps: {x: {budget: {workers: 3}}}", "apps.x: .*a budget needs an objective"),
        ("service: {port: 99999}", "service.port: 99999 is not accepted: .* less than or equal to 65535"),
        ("service: {prot: 1}", "service.prot: is not a known field"),
        ("a: [", "line 2, column 1: not YAML"),
        ("apps: {x: {}, x: {}}", "apps.x: the key is given twice"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigRefused, match=sentence):
        config(text, tmp_path)


@pytest.mark.parametrize(
    "entry",
    [
        "sink: [postgresql://u:S3CRET@h/db]",
        "sink: postgresql://u:S3CRET@h/db",
        "sink: {kind: sql, path: [postgresql://u:S3CRET@h/db]}",
        "source: redis://:S3CRET@h:6379/0",
        "source: {kind: kafka, path: h, options: {sasl.password: [S3CRET]}}",
        "[{sink: {path: S3CRET}}]",
    ],
)
def test_what_may_carry_a_password_is_not_shown(entry: str, tmp_path: Path) -> None:
    text = f"apps: {{x: {entry}}}" if entry.startswith("[") else f"apps: {{x: {{{entry}}}}}"
    with pytest.raises(ConfigRefused) as told:
        config(text, tmp_path)
    assert "is not accepted" in str(told.value)
    assert "S3CRET" not in str(told.value)


def test_every_fault_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigRefused) as told:
        config("service: {port: x}\napps: {a: {mode: fast}, b: {items: 0}}", tmp_path)
    assert [fault.path for fault in told.value.faults] == ["service.port", "apps.a.mode", "apps.b.items"]


def test_an_app_that_there_is_not_ends_the_start(tmp_path: Path, daemon: Daemon) -> None:
    (tmp_path / "x.yaml").write_text("apps: {nothing: {}}")
    told = pytest.raises(ConfigRefused, match=r"apps\.nothing: there is no app 'nothing'; registered are .*synthetic")
    with told, configured(tmp_path / "x.yaml", daemon):
        raise AssertionError("not reached")


def test_apps_are_started_changed_and_stopped(tmp_path: Path, daemon: Daemon) -> None:
    state = Configured(daemon)

    def holds(text: str) -> str | None:
        """The run that goes on then; with an entry that stays as it was, nothing is done."""
        state.bring_about(config(text, tmp_path))
        return daemon.observation.status("synthetic").origin.run

    first = holds("apps: {synthetic: {input: {rate_per_s: 10}, slo: latency=400ms}}")
    assert daemon.objectives.of("synthetic").target == 400.0
    assert holds("apps: {synthetic: {input: {rate_per_s: 20}, slo: latency=400ms}}") == first
    running = daemon.apps.running_spec("synthetic")
    assert running.input.rate_per_s == 20
    assert holds("apps: {synthetic: {input: {rate_per_s: 20}, batching: {items: 8}}}") == first
    assert daemon.objectives.all() == []
    assert holds("apps: {synthetic: {input: {rate_per_s: 20}, options: {total_ms: 5}}}") != first
    daemon.apps.stop("synthetic")
    holds("apps: {synthetic: {input: {rate_per_s: 20}, options: {total_ms: 5}}, ferret: {source: push}}")
    assert daemon.apps.running_spec("synthetic") is None, "its entry is as it was: who stopped it meant it"
    holds("apps: {}")
    assert daemon.apps.running_spec("ferret") is None


def test_what_is_refused_is_told_and_tried_again_with_the_next_change(tmp_path: Path, daemon: Daemon) -> None:
    state = Configured(daemon)
    budget = "budget: {workers: 8, apps: {nobody: {floor: 1}}}"
    text = f"{budget}\napps: {{synthetic: {{options: {{nope: 1}}}}, ferret: {{source: push}}}}"
    with capture_logs() as logs:
        state.bring_about(config(text, tmp_path))
    budget, app = [line["reason"] for line in logs if line["event"] == "configuration not applied"]
    assert "there is no app 'nobody'" in budget
    assert "options.nope: unknown option" in app
    assert daemon.apps.running_spec("ferret") is not None
    state.bring_about(config("apps: {synthetic: {}, ferret: {source: push}}", tmp_path))
    assert daemon.apps.running_spec("synthetic") is not None


def test_a_change_of_the_file_is_noticed_and_a_broken_one_changes_nothing(file: Path, daemon: Daemon) -> None:
    """As editors write: a new file in the place of the old one."""
    daemon.restore()

    def replaced(text: str) -> None:
        (file.parent / "new").write_text(text)
        (file.parent / "new").replace(file)

    with capture_logs() as logs, configured(file, daemon):
        wait_until(lambda: daemon.apps.running_spec("synthetic") is not None)
        replaced("apps: {synthetic: [}")
        wait_until(lambda: any(line["event"] == "configuration refused" for line in logs))
        assert daemon.apps.running_spec("synthetic") is not None
        replaced("apps: {}")
        wait_until(lambda: daemon.apps.running_spec("synthetic") is None)


def test_it_sets_what_all_apps_may_spend_or_leaves_that_alone(daemon: Daemon, tmp_path: Path) -> None:
    state = Configured(daemon)
    first = "budget: {workers: 8, apps: {ferret: {floor: 2}}}"
    for text, workers in ((first, 8), ("apps: {}", 8), ("budget: {workers: 6}", 6)):
        state.bring_about(config(text, tmp_path))
        assert daemon.machine.shares().workers == workers
