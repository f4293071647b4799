"""Messages as they come out at the other end of a connection."""

from runtime.transport.wire import HEAD, Message, pack, unpack


def through(message: Message) -> Message:
    parts, size = pack(message)
    data = bytearray().join(parts)
    assert len(data) == size
    assert HEAD.unpack_from(data)[0] == size - HEAD.size
    return unpack(HEAD.unpack_from(data), memoryview(data)[HEAD.size :])
