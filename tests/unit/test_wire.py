"""Values as frames and messages as bytes: round trips, alignment, over sockets in any fragments; and calls over a
socket: answers, many at once, lateness, and servers that are gone."""

import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock, Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.arena.frame_store import AsTheyAre
from runtime.transport.local_calls import SECRET_BYTES, LocalCaller, LocalServer
from runtime.transport.stream import MessageReader, MessageWriter, prepare
from runtime.transport.values import Broken, FrameCodec, Frames
from runtime.transport.wire import HEAD, PIECE_BYTES, Kind, Message, pack, pack_alone, pieces, unpack_alone
from tests.support.wire import through

FRAMES = st.lists(st.binary(max_size=70), max_size=5)
BITS_16, BITS_32, BITS_64 = (st.integers(0, 2**bits - 1) for bits in (16, 32, 64))
MESSAGES = st.builds(
    Message, st.sampled_from(Kind), BITS_64, BITS_16, BITS_16, FRAMES, st.dictionaries(BITS_16, FRAMES, max_size=3),
    st.lists(st.floats(allow_nan=False), max_size=6), BITS_32, BITS_32, st.lists(BITS_64, max_size=3),
)  # fmt: skip
Pair = tuple[socket.socket, socket.socket]
SIZES = st.lists(st.sampled_from([0, 1, 100, 20_000, 65_000, 70_000, 400_000]), max_size=3)


def plain(frames: Frames) -> list[bytes]:
    return [bytes(frame) for frame in frames]


@given(MESSAGES)
def test_a_message_comes_out_as_it_went_in(message: Message) -> None:
    out = through(message)
    assert out[:4] == message[:4]
    assert (out.start, out.items) == (message.start, message.items)
    assert plain(out.payload) == message.payload
    assert {stage: plain(frames) for stage, frames in out.states.items()} == message.states
    assert list(out.timings) == message.timings
    assert list(out.blocks) == message.blocks


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64, np.complex128])
def test_arrays_come_back_writable_aligned_and_without_a_copy(dtype: type) -> None:
    codec = FrameCodec()
    value = {"odd": b"x" * 13, "array": np.arange(1000, dtype=dtype), "tiny": np.arange(3, dtype=dtype)}
    out = through(Message(Kind.DONE, payload=codec.encode([value]), timings=(0.5, 0.25)))
    (decoded,) = codec.decode(out.payload)
    np.testing.assert_array_equal(decoded["array"], value["array"])
    for name in ("array", "tiny"):
        assert decoded[name].flags.aligned
        assert decoded[name].flags.writeable
    assert np.shares_memory(decoded["array"], np.frombuffer(out.payload[1], np.uint8))


def test_a_worker_sends_an_array_without_copying_it_and_a_source_a_copy() -> None:
    array = np.zeros(100_000)
    pickled, buffer = FrameCodec(AsTheyAre()).encode([array])
    assert len(pickled) < 500
    assert np.shares_memory(array, np.frombuffer(buffer, np.float64))
    copied = FrameCodec().encode([array])
    array += 1  # the source reads its next item into the same buffer
    assert not FrameCodec().decode(copied)[0].any()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(300_000, dtype=np.uint8).reshape(300, 500, 2),
        np.full(80_000, True),
        np.asfortranarray(np.arange(40_000.0).reshape(200, 200)),
        np.arange(200_000, dtype=np.int64)[::2],
        np.arange(50_000, dtype=">i8"),
        np.zeros(20_000, dtype=[("x", "f8"), ("y", "i4")]),
        np.zeros(20_000, dtype="datetime64[s]"),
        np.array([{"k": number} for number in range(20_000)], dtype=object),
        np.ma.masked_equal(np.arange(40_000.0), 7),
        np.zeros((0, 100_000)),
    ],
    ids=lambda array: f"{type(array).__name__}-{array.dtype.str}-{array.shape}",
)
def test_a_large_array_by_itself_is_what_it_was(array: np.ndarray) -> None:
    codec = FrameCodec()
    (decoded,) = codec.decode(through(Message(Kind.DONE, payload=codec.encode([array]))).payload)
    assert (type(decoded), decoded.dtype, decoded.flags.writeable) == (type(array), array.dtype, True)
    np.testing.assert_array_equal(decoded, array)


def test_an_array_whose_bytes_are_too_few_is_broken() -> None:
    codec = FrameCodec()
    head, frame = codec.encode([np.zeros(100_000)])
    assert isinstance(codec.decode([head, frame[:100]])[0], Broken)


@given(MESSAGES)
def test_a_message_of_one_small_frame_is_the_same_in_one_piece(message: Message) -> None:
    data = pack_alone(message)
    assert (data is None) == (len(message.payload) != 1 or bool(message.states) or bool(message.blocks))
    assert data is None or data == b"".join(map(bytes, pack(message)[0]))


def test_a_large_frame_is_not_copied_into_one_piece() -> None:
    assert pack_alone(Message(Kind.DONE, payload=[bytes(1 << 20)])) is None


def test_a_table_that_goes_beyond_its_message_is_not_read() -> None:
    data = pack_alone(Message(Kind.DONE, payload=[b"x"], timings=(1.0, 2.0)))
    size, *rest = HEAD.unpack_from(data)
    assert unpack_alone((size, *rest), memoryview(data), HEAD.size) is not None
    assert unpack_alone((size - 2, *rest), memoryview(data), HEAD.size) is None


@pytest.mark.parametrize("sizes", [[10], [10, 200_000], [10, 5, 400_000, 7, 7, 131_072, 300_000, 3]])
def test_pieces_are_the_message_cut_up_with_its_head_in_the_first(sizes: list[int]) -> None:
    parts = [bytes([at]) * size for at, size in enumerate(sizes)]
    cut = pieces(parts)
    assert b"".join(cut) == b"".join(parts)
    assert max(map(len, cut)) <= PIECE_BYTES
    assert bytes(cut[0]).startswith(parts[0])


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


def test_small_messages_that_are_sent_together_are_one_call_of_the_system(pair: Pair) -> None:
    left, sent = Mock(wraps=pair[0]), [message(number, 100) for number in range(20)]
    MessageWriter(left).send_all(sent)
    assert left.send.call_count + left.sendmsg.call_count == 1
    assert told(MessageReader(pair[1]).read()) == told(sent)


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
