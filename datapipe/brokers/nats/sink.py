"""A JetStream stream of NATS, over ``nats-py``: ``nats://HOST:4222/STREAM``. Each result is a message on subject
``STREAM.RUN``: its payload is JSON, empty if the item has failed; headers are ``run``, ``epoch``, ``serial``, ``part``
and ``error``.

Each message is published on condition that the last message of its subject is the runner's previous one, so no other
writer can come between. A runner that takes over first writes a message without ``serial`` (``until``: the progress of
the run): from then on the condition of the earlier runner fails.
"""

from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from compositions.errors import RecomposeError
from datapipe.brokers.nats.source import ANSWER_S, FORM, ONCE, own_loop, told_by_answers
from datapipe.brokers.opening import library, parts_of
from datapipe.sinks.port import Gather, Row, followed, line_of

T = TypeVar("T")
EXPECTED = "Nats-Expected-Last-Subject-Sequence"
WRONG_SEQUENCE = 10071
"""JetStream's error code if the last message is another one."""
ALL = 2**31
"""The number of the last stored part for an item that is stored completely."""
WHO = "sink nats"


class Last(NamedTuple):
    """The last row in the stream, which has all rows before it too."""

    serial: int
    part: int


class NatsSink:
    """Raises: RecomposeError for a URL without a stream, or if the library is missing."""

    gather = Gather(500, 0.0)

    def __init__(self, url: str, run: str, epoch: int) -> None:
        self._server, self._stream = _place(url)
        self._subject = f"{self._stream}.{run}"
        self._run, self._epoch = run, epoch
        self._nats = library("nats", WHO, "nats-py", "nats")
        self._loop = own_loop()
        """The event loop, which runs in the writing thread during a write."""
        self._client: Any = None
        """None: not connected yet, or an error occurred, so that the run's progress must be read again."""
        self._sequence = 0
        """The sequence number of the subject's last message."""
        self._last = Last(-1, ALL)

    def begin(self, next_serial: int, known: int) -> int:
        """Take over the run. A stream deletes nothing, so results that come again are duplicated."""
        return self._asked(self._take_over(next_serial, known))

    def write(self, until: int, rows: Sequence[Row]) -> None:
        """Write row by row; after an error in the middle, the next attempt continues there."""
        self._asked(self._append(rows))

    def close(self) -> None:
        try:
            if self._client is not None:
                self._loop.run(self._leave())
        finally:
            self._loop.close()

    def _asked(self, question: Coroutine[Any, Any, T]) -> T:
        errors = self._nats.errors
        try:
            return self._loop.run(question)
        except (errors.Error, OSError) as error:
            self._loop.run(self._leave())
            never = isinstance(error, errors.AuthorizationError | errors.MaxPayloadError)
            raise (RecomposeError if never else OSError)(f"sink nats cannot be written: {error!r}") from error

    async def _take_over(self, next_serial: int, known: int) -> int:
        while True:
            await self._connect()
            last, known = self._last, max(known, self._last.serial + (self._last.part == ALL))
            until = min(known, next_serial)
            if until != last.serial:  # else that item may be there in part
                last = Last(until - 1, ALL)
            if await self._published({"until": str(until), "through": f"{last.serial} {last.part}"}, b""):
                self._last = last
                return until

    async def _append(self, rows: Sequence[Row]) -> None:
        if self._client is None or self._client.is_closed:
            await self._connect()
        for row in rows:
            place = Last(row.serial, row.part or 0)
            while place > self._last:
                if await self._published(_headers(row), (row.value or "").encode()):
                    self._last = place
                else:  # it may be there, and its answer was lost
                    await self._look()

    async def _published(self, told: Mapping[str, str], payload: bytes) -> bool:
        """Publish a message; return False if the subject's last message is not the expected one."""
        headers = {"run": self._run, "epoch": str(self._epoch), **told, EXPECTED: str(self._sequence)}
        try:
            stream = self._client.jetstream(timeout=ANSWER_S)
            answer = await stream.publish(self._subject, payload, headers=headers, stream=self._stream)
        except self._nats.js.errors.APIError as error:
            if error.err_code == WRONG_SEQUENCE:
                return False
            raise
        self._sequence = answer.seq
        return True

    async def _connect(self) -> None:
        await self._leave()
        self._client = await self._nats.connect(self._server, error_cb=told_by_answers, **ONCE)
        try:
            await self._look()
        except self._nats.js.errors.NotFoundError:
            stream = self._client.jetstream(timeout=ANSWER_S)
            await stream.add_stream(name=self._stream, subjects=[f"{self._stream}.>"])
            await self._look()

    async def _look(self) -> None:
        """Read the run's progress in the stream. Raises: RecomposeError if a later epoch or another program writes."""
        stream = self._client.jetstream(timeout=ANSWER_S)
        await stream.stream_info(self._stream)
        try:
            found = await stream.get_last_msg(self._stream, self._subject)
        except self._nats.js.errors.NotFoundError:  # none yet, or dropped by limits
            self._sequence = 0
            return
        told = found.headers or {}
        if told.get("run") != self._run:
            raise RecomposeError(f"another client publishes on subject {self._subject!r}, which only this run may use")
        if int(told["epoch"]) > self._epoch:
            raise followed(self._run)
        self._sequence = found.seq
        if "through" in told:
            self._last = Last(*map(int, told["through"].split()))
        else:
            self._last = Last(int(told["serial"]), int(told.get("part", 0)))

    async def _leave(self) -> None:
        client, self._client = self._client, None
        if client is not None and not client.is_closed:
            with suppress(self._nats.errors.Error, OSError):  # it may be why we leave
                await client.close()


def _headers(row: Row) -> dict[str, str]:
    told = {"serial": row.serial, "part": row.part, "error": row.error}
    return {name: line_of(str(value)) for name, value in told.items() if value is not None}


def _place(url: str) -> tuple[str, str]:
    """Return the server and the stream of a URL. Raises: RecomposeError."""
    parts = parts_of(url, WHO, FORM)
    stream = parts.path.strip("/")
    if parts.scheme != "nats" or not parts.hostname or not stream or "/" in stream or parts.query:
        raise RecomposeError(f"the path of sink nats names no server and stream; give {FORM}")
    return parts._replace(path="").geturl(), stream
