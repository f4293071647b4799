"""Messages over a real socket pair: any sizes, any fragmentation, a full socket, the end of the other side."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.transport.stream import MessageReader, MessageWriter, prepare
from runtime.transport.wire import Kind, Message, pack

Pair = tuple[socket.socket, socket.socket]


@contextmanager
def socket_pair() -> Iterator[Pair]:
    left, right = socket.socketpair()
    with left, right:
        for sock in (left, right):
            sock.setblocking(False)
            prepare(sock)
        yield left, right


@pytest.fixture
def pair() -> Iterator[Pair]:
    with socket_pair() as pair:
        yield pair


def message(number: int, *sizes: int) -> Message:
    return Message(Kind.TASK, number, payload=[bytes([number % 256]) * size for size in sizes])


def told(messages: list[Message]) -> list[tuple[int, list[bytes]]]:
    return [(each.task_id, [bytes(frame) for frame in each.payload]) for each in messages]


SIZES = st.lists(st.sampled_from([0, 1, 100, 20_000, 65_000, 70_000, 400_000]), max_size=3)


@given(st.lists(SIZES, min_size=1, max_size=8), st.booleans())
@settings(max_examples=40, deadline=None)
def test_any_sizes_arrive_in_order_when_neither_side_blocks(sizes: list[list[int]], together: bool) -> None:
    sent = [message(number, *each) for number, each in enumerate(sizes)]
    with socket_pair() as (left, right):
        writer = MessageWriter(left)
        for group in [sent] if together else [[each] for each in sent]:
            writer.send_all(group)
        assert told(all_of(len(sent), writer, MessageReader(right))) == told(sent)
        assert not writer.backlog


def all_of(count: int, writer: MessageWriter, reader: MessageReader) -> list[Message]:
    got: list[Message] = []
    while writer.backlog or len(got) < count:
        got += reader.read()
        writer.flush()
    return got


class CountingSocket(socket.socket):
    """Counts the calls by which it was given something to send."""

    calls = 0

    def send(self, *args: Any) -> int:
        self.calls += 1
        return super().send(*args)

    def sendmsg(self, *args: Any) -> int:
        self.calls += 1
        return super().sendmsg(*args)


def test_small_messages_that_are_sent_together_are_one_call_of_the_system(pair: Pair) -> None:
    left, right = CountingSocket(fileno=pair[0].detach()), pair[1]
    sent = [message(number, 100) for number in range(20)]
    with left:
        MessageWriter(left).send_all(sent)
        assert left.calls == 1
    assert told(MessageReader(right).read()) == told(sent)


@pytest.mark.parametrize("step", [1, 7, 39, 1000])
def test_a_message_in_pieces_is_put_together(pair: Pair, step: int) -> None:
    left, right = pair
    sent = [message(1, 10), message(2), message(3, 300, 5)]
    data = b"".join(part for each in sent for part in pack(each)[0])
    reader = MessageReader(right)
    got: list[Message] = []
    for start in range(0, len(data), step):
        left.send(data[start : start + step])
        got += reader.read()
    assert told(got) == told(sent)


@pytest.mark.parametrize("sizes", [[[9_000_000], [10], [10]], [[200] * 1500]], ids=["a full socket", "many parts"])
def test_what_one_call_does_not_take_is_kept_in_order(pair: Pair, sizes: list[list[int]]) -> None:
    left, right = pair
    writer = MessageWriter(left)
    sent = [message(number, *each) for number, each in enumerate(sizes)]
    for each in sent:
        writer.send(each)
    assert writer.backlog or len(sizes) == 1
    assert told(all_of(len(sent), writer, MessageReader(right))) == told(sent)


@pytest.mark.parametrize("size", [100, 500_000])
def test_the_end_of_the_other_side_is_told_after_its_last_whole_message(pair: Pair, size: int) -> None:
    left, right = pair
    MessageWriter(left).send(message(1, 5))
    left.send(b"".join(pack(message(1, size))[0])[:90])
    reader = MessageReader(right)
    assert told(reader.read()) == told([message(1, 5)])
    left.close()
    with pytest.raises(EOFError):
        reader.read()


def test_a_message_above_the_limit_is_refused_before_memory_is_taken(pair: Pair) -> None:
    left, right = pair
    head = bytearray(b"".join(pack(message(1, 5))[0]))
    head[:8] = (2**50).to_bytes(8, "little")
    left.send(head)
    with pytest.raises(OSError, match="at most 4096 are accepted"):
        MessageReader(right, 4096).read()
