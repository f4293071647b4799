"""The hub and workers' channels over real sockets, by unix socket and encrypted over the network, without Ray."""

import os
import socket
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from hub_bench import PATIENCE_S, beside, next_of

from runtime.transport.channel import connect
from runtime.transport.hub import Hub
from runtime.transport.pending import Invitation
from runtime.transport.wire import Kind, Message


@pytest.fixture
def unix_hub() -> Iterator[Hub]:
    with closing(Hub()) as hub:
        yield hub


@pytest.fixture(params=["unix", "tcp"])
def hub(request: pytest.FixtureRequest) -> Iterator[Hub]:
    hub = Hub(unix=request.param == "unix")
    if request.param == "tcp":
        hub.open_network("127.0.0.1")
    threads, descriptors = threading.active_count(), _descriptors()
    yield hub
    hub.close()
    hub.close()
    assert threading.active_count() <= threads
    assert _descriptors() < descriptors


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def join(hub: Hub, worker: str, invitation: Invitation | None = None) -> Any:
    """Return what ``connect`` gave, or its error."""
    invitation = invitation or hub.invite(worker)
    return beside(hub, lambda: connect(invitation))


def test_wake_ends_a_poll_from_another_thread_and_after_close(hub: Hub) -> None:
    with ThreadPoolExecutor(1) as thread:
        waiter = thread.submit(hub.poll, None)
        hub.wake()
        assert waiter.result(PATIENCE_S) == []
    hub.close()
    hub.wake()


@pytest.mark.parametrize("forge", [{"secret": b"guessed"}, {"worker": "nobody"}])
def test_a_stranger_is_not_let_in(hub: Hub, forge: dict[str, Any]) -> None:
    error = join(hub, "w1", replace(hub.invite("w1"), **forge))
    assert isinstance(error, ConnectionError)
    assert "did not let worker" in str(error)
    assert hub.poll(0.0) == []


def test_the_same_worker_is_not_let_in_twice(hub: Hub) -> None:
    invitation = hub.invite("w1")
    channel = join(hub, "w1", invitation)
    assert isinstance(join(hub, "w1", invitation), ConnectionError)
    channel.close()
    assert next_of(hub) == [("w1", None)]


@pytest.mark.parametrize("noise", [b"\0" * 64, b"\xff" * 64, b"GET / HTTP/1.1\r\nHost: hub.example\r\n\r\n" * 2])
def test_noise_from_a_stranger_hurts_nobody(unix_hub: Hub, noise: bytes) -> None:
    invitation = unix_hub.invite("w1")
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(invitation.unix_path)
        stranger.sendall(noise)
        assert [unix_hub.poll(0.0) for _ in range(3)] == [[], [], []]
    channel = join(unix_hub, "w1", invitation)
    channel.send(Message(Kind.READY))
    assert next_of(unix_hub) == [("w1", Message(Kind.READY, payload=[], timings=()))]
    channel.close()


def test_the_unix_socket_is_for_this_user_alone_and_leaves_no_trace() -> None:
    hub = Hub()
    path = hub.invite("w1").unix_path
    folder = os.path.dirname(path)
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    hub.close()
    assert not os.path.exists(folder)


def test_where_the_unix_socket_is_out_of_reach_a_worker_comes_by_the_network_or_says_so(unix_hub: Hub) -> None:
    away = replace(unix_hub.invite("w1"), unix_path="/nowhere/items")
    with pytest.raises(ConnectionError, match="/nowhere/items cannot be reached and offers no network address"):
        connect(away)
    unix_hub.open_network("127.0.0.1")
    channel = join(unix_hub, "w2", replace(unix_hub.invite("w2"), unix_path="/nowhere/items"))
    channel.send(Message(Kind.READY))
    assert [worker for worker, _ in next_of(unix_hub)] == ["w2"]
    channel.close()


def test_a_slow_worker_does_not_block_the_hub(unix_hub: Hub) -> None:
    slow, quick = join(unix_hub, "slow"), join(unix_hub, "quick")
    for number in range(4):
        unix_hub.send("slow", [Message(Kind.TASK, number, payload=[b"x" * 2_000_000])])
    unix_hub.send("quick", [Message(Kind.TASK, 9)])
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(quick.receive).result(PATIENCE_S).task_id == 9
    assert beside(unix_hub, lambda: [slow.receive().task_id for _ in range(4)]) == [0, 1, 2, 3]
    for channel in (slow, quick):
        channel.close()
