"""Calls over a unix socket: answers, many at once, lateness, and servers that are gone."""

import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from runtime.transport.local_calls import SECRET_BYTES, LocalCaller, LocalServer

PATIENCE_S = 10.0
Serve = Callable[[Callable[[bytes], bytes]], LocalServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers: list[LocalServer] = []

    def make(answer: Callable[[bytes], bytes]) -> LocalServer:
        servers.append(LocalServer(answer))
        return servers[-1]

    yield make
    for server in servers:
        server.close()
        assert not os.path.exists(server.address.folder)


def reversed_(asked: bytes) -> bytes:
    return asked[::-1]


@pytest.mark.parametrize("asked", [b"", b"abc", bytes(range(256)) * 20_000])
def test_an_answer_is_that_of_its_question(serve: Serve, asked: bytes) -> None:
    caller = LocalCaller(serve(reversed_).address)
    assert caller.ask(asked, PATIENCE_S) == asked[::-1]
    assert caller.ask(b"another", PATIENCE_S) == b"rehtona"


def test_who_does_not_know_the_secret_is_not_answered(serve: Serve) -> None:
    answer = MagicMock()
    stranger = LocalCaller(replace(serve(answer).address, secret=bytes(SECRET_BYTES)))
    with pytest.raises(ConnectionResetError):
        stranger.ask(b"x", PATIENCE_S)
    assert not answer.called


def test_a_server_that_is_not_there_was_not_asked(tmp_path: Path, serve: Serve) -> None:
    caller = LocalCaller(replace(serve(reversed_).address, folder=str(tmp_path)))
    with pytest.raises(ConnectionRefusedError):
        caller.ask(b"x", PATIENCE_S)


def test_a_server_that_ends_while_it_is_asked() -> None:
    """Played by a plain socket, as one that ends with its process does: the kernel closes the connection."""
    left = LocalServer(reversed_)
    left.close()
    os.mkdir(left.address.folder, 0o700)
    caller = LocalCaller(left.address)
    with socket.socket(socket.AF_UNIX) as ending, ThreadPoolExecutor(1) as thread:
        ending.bind(left.address.path)
        ending.listen()
        asked = thread.submit(caller.ask, b"x", PATIENCE_S)
        connection, _ = ending.accept()
        with connection:
            connection.recv(SECRET_BYTES + 9, socket.MSG_WAITALL)
        with pytest.raises(ConnectionResetError):
            asked.result(PATIENCE_S)
    caller.clear_up()
    assert not os.path.exists(left.address.folder)
