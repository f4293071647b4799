"""The hub and workers' channels over real sockets, without Ray: connections that break half-way, strangers that stay or
flood, and what an invitation is good for."""

import os
import resource
import socket
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
import zmq
from hub_bench import PATIENCE_S, beside, next_of

from runtime.transport.channel import EncryptedChannel, StreamChannel, connect
from runtime.transport.connection import LobbySettings
from runtime.transport.hub import Hub
from runtime.transport.pending import Invitation, Network
from runtime.transport.wire import HEAD, Kind, Message, pack, unpack
from tests.support.relay import Relay


@pytest.fixture
def unix_hub() -> Iterator[Hub]:
    with closing(Hub()) as hub:
        yield hub


@pytest.fixture(params=["unix", "tcp"])
def either_hub(request: pytest.FixtureRequest) -> Iterator[Hub]:
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


def test_wake_ends_a_poll_from_another_thread_and_after_close(either_hub: Hub) -> None:
    with ThreadPoolExecutor(1) as thread:
        waiter = thread.submit(either_hub.poll, None)
        either_hub.wake()
        assert waiter.result(PATIENCE_S) == []
    either_hub.close()
    either_hub.wake()


@pytest.mark.parametrize("forge", [{"secret": b"guessed"}, {"worker": "nobody"}])
def test_a_stranger_is_not_let_in_nor_the_same_worker_twice(either_hub: Hub, forge: dict[str, Any]) -> None:
    invitation = either_hub.invite("w1")
    error = join(either_hub, "w1", replace(invitation, **forge))
    assert isinstance(error, ConnectionError)
    assert "refused the connection of worker" in str(error)
    assert either_hub.poll(0.0) == []
    channel = join(either_hub, "w1", invitation)
    assert isinstance(join(either_hub, "w1", invitation), ConnectionError)
    channel.close()
    assert next_of(either_hub) == [("w1", None)]


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
    with pytest.raises(ConnectionError, match="/nowhere/items cannot be reached and has no network address"):
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


@contextmanager
def network_hub(**options: Any) -> Iterator[Hub]:
    hub = Hub(unix=False, **options)
    hub.open_network("127.0.0.1")
    yield hub
    hub.close()


@pytest.fixture
def hub() -> Iterator[Hub]:
    with network_hub() as hub:
        yield hub


def connected(invitation: Invitation) -> socket.socket:
    network = invitation.network
    return socket.create_connection((network.host, network.lifeline_port))


def lifeline(hub: Hub, invitation: Invitation) -> StreamChannel:
    channel = beside(hub, lambda: StreamChannel(connected(invitation), invitation))
    assert isinstance(channel, StreamChannel), channel
    return channel


def ready(hub: Hub, invitation: Invitation, network: Network) -> EncryptedChannel:
    channel = EncryptedChannel(lifeline(hub, invitation), network, invitation)
    channel.send(Message(Kind.READY))
    return channel


def packed(message: Message) -> bytes:
    return b"".join(pack(message)[0])


def dealer_of(invitation: Invitation, keys: tuple[bytes, bytes] | None = None) -> zmq.Socket[bytes]:
    """A ZeroMQ end of the test's own, so that it can answer as it likes."""
    network, dealer = invitation.network, zmq.Context().socket(zmq.DEALER)
    dealer.identity, dealer.linger = invitation.identity, 0
    dealer.curve_serverkey = network.server_key
    dealer.curve_publickey, dealer.curve_secretkey = keys or (invitation.curve_public, invitation.curve_secret)
    dealer.connect(network.items_endpoint)
    return dealer


def end(dealer: zmq.Socket[bytes]) -> None:
    dealer.close()
    dealer.context.term()


def by_relay(hub: Hub) -> tuple[Relay, EncryptedChannel]:
    """A worker that is ready, and the relay that its items go through."""
    invitation = hub.invite("w1")
    network = invitation.network
    relay = Relay(int(network.items_endpoint.rpartition(":")[2]))
    return relay, ready(hub, invitation, replace(network, items_endpoint=f"tcp://127.0.0.1:{relay.port}"))


# --- a connection that breaks beside its lifeline (a task was lost in silence) ---------------------------------------


def test_a_task_that_cannot_be_routed_is_the_loss_of_its_worker(hub: Hub) -> None:
    channel = lifeline(hub, hub.invite("w1"))  # and no ZeroMQ connection
    hub.send("w1", [Message(Kind.TASK, 1)])
    assert next_of(hub) == [("w1", None)]
    hub.send("w1", [Message(Kind.TASK, 2)])
    assert hub.poll(0.0) == []
    channel.close()


def test_a_zeromq_connection_that_breaks_under_an_idle_worker_is_its_loss(hub: Hub) -> None:
    relay, channel = by_relay(hub)
    assert [worker for worker, _ in next_of(hub)] == ["w1"]
    relay.end()
    hub.send("w1", [Message(Kind.TASK, 1)])  # ZeroMQ may take it, or not: it cannot arrive
    worker = threading.Thread(target=lambda: (channel.receive(), channel.close()))
    worker.start()
    assert next_of(hub) == [("w1", None)]
    worker.join(PATIENCE_S)
    assert not worker.is_alive()


def test_a_worker_whose_zeromq_connection_broke_while_it_worked_does_not_answer_as_if_nothing_was(hub: Hub) -> None:
    relay, channel = by_relay(hub)
    next_of(hub)
    relay.end()
    channel._broken.poll(PATIENCE_S * 1000)
    with pytest.raises(ConnectionError, match="the ZeroMQ connection to the runner broke"):
        channel.send(Message(Kind.DONE, 1))
    channel.close()
    assert next_of(hub) == [("w1", None)]


def test_what_comes_while_a_worker_looks_whether_the_hub_is_there_is_not_left_lying(hub: Hub) -> None:
    invitation = hub.invite("w1")
    channel = ready(hub, invitation, invitation.network)
    next_of(hub)
    looks = channel._poller

    def late(timeout_ms: int | None) -> list[tuple[Any, int]]:
        hub.send("w1", [Message(Kind.TASK, 1)])
        return looks.poll(PATIENCE_S * 1000)

    channel._poller = SimpleNamespace(poll=late)
    assert [message.task_id for message in channel.poll() or ()] == [1]
    channel.close()


def test_an_answer_to_a_later_task_proves_that_the_one_before_was_lost(hub: Hub) -> None:
    invitation = hub.invite("w1")
    channel, dealer = lifeline(hub, invitation), dealer_of(invitation)
    dealer.send(packed(Message(Kind.READY)))
    next_of(hub)
    for number in (1, 2):
        hub.send("w1", [Message(Kind.TASK, number)])
    first = dealer.recv()
    assert unpack(HEAD.unpack_from(first), memoryview(first)[HEAD.size :]).task_id == 1
    dealer.send(packed(Message(Kind.DONE, 2)))  # as if the first had not arrived
    assert next_of(hub) == [("w1", None)]
    end(dealer)
    channel.close()


def test_what_comes_unencrypted_on_the_lifeline_is_no_message(hub: Hub) -> None:
    channel = lifeline(hub, hub.invite("w1"))
    channel.send(Message(Kind.DONE, 1))
    assert next_of(hub) == [("w1", None)]
    channel.close()


def test_what_a_worker_said_before_it_died_is_heard_also_when_something_is_sent_to_it(unix_hub: Hub) -> None:
    channel = join(unix_hub, "w1")
    channel.send(Message(Kind.DONE, 1))
    channel.close()
    unix_hub.send("w1", [Message(Kind.TASK, 2)])
    received = next_of(unix_hub)
    while received[-1][1] is not None:
        received += next_of(unix_hub)
    assert [message and message.task_id for _, message in received] == [1, None]


# --- strangers -------------------------------------------------------------------------------------------------------


def stranger_of(hub: Hub) -> socket.socket:
    stranger = connected(hub.invite("somebody"))
    hub.poll(1.0)
    return stranger


def closed(sock: socket.socket) -> bool:
    sock.settimeout(PATIENCE_S)
    try:
        while sock.recv(4096):
            pass
    except OSError:
        return False
    return True


def test_a_stranger_that_says_nothing_is_closed_at_its_deadline() -> None:
    now_s = 100.0
    settings = LobbySettings(stranger_s=5.0)
    with network_hub(settings=settings, clock=lambda: now_s) as hub, stranger_of(hub) as stranger:
        now_s += 4.9
        hub.poll(0.0)
        stranger.settimeout(0.0)
        assert stranger.recv(4096)  # the challenge
        with pytest.raises(BlockingIOError):
            stranger.recv(1)
        now_s += 0.2
        assert hub.poll(None) == []  # it does not wait beyond the deadline
        assert closed(stranger)


def test_of_too_many_strangers_the_one_that_waited_longest_goes() -> None:
    with network_hub(settings=LobbySettings(strangers=2)) as hub:
        strangers = [stranger_of(hub) for _ in range(3)]
        assert closed(strangers[0])
        lifeline(hub, hub.invite("w1")).close()
        for stranger in strangers:
            stranger.close()


def test_without_descriptors_the_hub_pauses_instead_of_spinning() -> None:
    now_s = 100.0
    with network_hub(settings=LobbySettings(full_pause_s=1.0), clock=lambda: now_s) as hub:
        invitation = hub.invite("w1")
        network, knocking = invitation.network, socket.socket()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        spare = os.dup(0)
        os.close(spare)  # the lowest that is free: none is left below it
        resource.setrlimit(resource.RLIMIT_NOFILE, (spare, hard))
        try:
            knocking.connect((network.host, network.lifeline_port))
            hub.poll(0.1)
            began_s = monotonic()
            assert hub.poll(0.05) == []
            assert monotonic() - began_s >= 0.04  # the door still has somebody waiting, and is not asked again
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        knocking.close()
        now_s += 1.0
        lifeline(hub, invitation).close()


# --- what an invitation is good for ----------------------------------------------------------------------------------


def test_no_answer_to_a_challenge_is_a_routing_id_or_a_key(unix_hub: Hub) -> None:
    invitation = unix_hub.invite("w1")
    assert invitation.identity[1:] != invitation.proof(b"routing id")
    shown = {invitation.proof(b""), invitation.identity, invitation.curve_secret, invitation.secret}
    assert len(shown) == 4
    assert invitation.secret.hex() not in repr(invitation)


def test_a_worker_with_its_own_invitation_cannot_pass_for_another(hub: Hub) -> None:
    own, other = hub.invite("w1"), hub.invite("w2")
    assert own.secret != other.secret
    forged = replace(own, worker="w2")
    assert isinstance(beside(hub, lambda: StreamChannel(connected(other), forged)), ConnectionError)


def test_a_challenge_of_another_length_is_not_answered(unix_hub: Hub) -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(packed(Message(Kind.HELLO, payload=[b"routing id"])))
    with pytest.raises(ConnectionError, match="refused the connection of worker"):
        StreamChannel(ours, unix_hub.invite("w1"))
    assert theirs.recv(1) == b""
    theirs.close()


def test_zeromq_lets_in_only_keys_of_invitations_that_are_still_good(hub: Hub) -> None:
    invitation, gone = hub.invite("w1"), hub.invite("w2")
    channel = lifeline(hub, invitation)
    hub.drop("w2")
    strangers = [dealer_of(invitation, zmq.curve_keypair()), dealer_of(gone)]
    denied = [each.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH) for each in strangers]
    for monitor in denied:
        assert beside(hub, lambda monitor=monitor: monitor.poll(PATIENCE_S * 1000))
    invited = dealer_of(invitation)
    invited.send(packed(Message(Kind.READY)))
    assert [worker for worker, _ in next_of(hub)] == ["w1"]
    for monitor, dealer in zip(denied, strangers, strict=True):
        dealer.disable_monitor()
        monitor.close()
        end(dealer)
    end(invited)
    channel.close()


def test_a_channel_is_polled_whatever_number_its_descriptor_has() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    many = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
    try:
        with network_hub() as hub:
            channel = lifeline(hub, hub.invite("w1"))
            assert channel.descriptors[0] > 1024
            assert channel.poll() == []
            channel.close()
    finally:
        for each in many:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
