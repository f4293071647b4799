"""Values as frames, messages as bytes: round trips, sharing of memory, alignment."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.arena.frame_store import AsTheyAre
from runtime.transport.values import Broken, FrameCodec, Frames
from runtime.transport.wire import HEAD, PIECE_BYTES, Kind, Message, pack, pack_alone, pieces, unpack_alone
from tests.support.wire import through

FRAMES = st.lists(st.binary(max_size=70), max_size=5)
MESSAGES = st.builds(
    Message,
    st.sampled_from(Kind),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**16 - 1),
    st.integers(0, 2**16 - 1),
    FRAMES,
    st.dictionaries(st.integers(0, 2**16 - 1), FRAMES, max_size=3),
    st.lists(st.floats(allow_nan=False), max_size=6),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, 2**64 - 1), max_size=3),
)


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
        np.arange(40_000.0).reshape(200, 200),
        np.full(80_000, 1j),
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


@pytest.mark.parametrize("value", [None, [None, "text", (1, 2.5), {"k": b"v"}]])
def test_a_value_without_arrays_is_one_frame(value: object) -> None:
    frames = FrameCodec().encode([value])
    assert len(frames) == 1
    assert FrameCodec().decode(through(Message(Kind.TASK, payload=frames)).payload) == [value]


def test_what_cannot_be_pickled_raises() -> None:
    with pytest.raises(Exception, match="pickle"):
        FrameCodec().encode([lambda: None])


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
