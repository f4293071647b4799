"""A JetStream stream of NATS, over ``nats-py``: ``nats://HOST:4222/STREAM``. A message's payload is the item.

The consumer is ephemeral, so the server drops it when unused: only the run's journal stores the position.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from time import monotonic
from typing import Any, TypeVar

import structlog

from compositions.errors import RecomposeError
from compositions.wording import without_user
from datapipe.brokers.opening import library, parts_of
from datapipe.sources.fed import Message, check_options, goes_on
from datapipe.sources.portions import Position

FORM = "nats://HOST:4222/STREAM"
ANSWER_S = 5.0
ONCE = {"allow_reconnect": False, "max_reconnect_attempts": 1, "reconnect_time_wait": 0, "connect_timeout": ANSWER_S}
"""Options of a connection without reconnects: the caller retries from its position."""


async def told_by_answers(_: Exception) -> None:
    """Ignore an error that the library would log, as the next call reports it too."""


def own_loop() -> asyncio.Runner:
    """Return an event loop that is created by its first use, so that an adapter that was only checked holds nothing.
    Closing it ends the tasks that the library leaves behind."""
    return asyncio.Runner(loop_factory=asyncio.new_event_loop)


T = TypeVar("T")
log = structlog.get_logger()
SHORTEST_S = 0.005
"""The shortest wait that the library accepts."""
FORGET_S = 300.0
"""Idle time after which the server drops the consumer."""
QUIET_S = 2.0
"""Time without a message after which to check the consumer: one that was dropped, or whose stream was, is silent."""
WHO = "source nats"


class NatsFeed:
    """A stream as one partition; its position is the sequence number of the next message.

    Options. ``subject``: read only these of the stream's subjects (NATS wildcards). ``on_gap``: whether the run ends if
    the stream's limits dropped unread messages. Raises: RecomposeError for a URL without a stream, an unknown option,
    or if the library is missing.
    """

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self._server, self._stream = _address(url)
        check_options(WHO, options, ("subject", "on_gap"))
        self._goes_on = goes_on(WHO, options)
        self._nats = library("nats", WHO, "nats-py", "nats")
        self._subject = str(options["subject"]) if "subject" in options else None
        self._loop = own_loop()
        """The event loop, which runs in the reading thread during a call."""
        self._client: Any = None
        self._messages: Any = None
        self._heard_s = 0.0
        """Time of the last message or check, by the monotonic clock."""
        self._next = 0
        """The sequence number of the next message to read."""
        self._per_subject = 0
        """Maximum number of messages that the stream keeps per subject; 0 or less: no limit."""
        self.ended = False

    def seek(self, positions: Mapping[str, Position]) -> None:
        self._asked(self._begin(positions.get(self._stream)))

    def poll(self, most: int, wait_s: float) -> Sequence[Message]:
        return self._asked(self._fetch(most, max(wait_s, SHORTEST_S)))

    def commit(self, positions: Mapping[str, Position]) -> None:
        """Do nothing, as the stream's own limits decide what it keeps."""

    def close(self) -> None:
        try:
            if self._client is not None:
                self._asked(self._leave())
        finally:
            self._loop.close()

    def _asked(self, question: Coroutine[Any, Any, T]) -> T:
        try:
            return self._loop.run(question)
        except self._nats.js.errors.NotFoundError as error:
            raise OSError(f"nats has no stream {self._stream!r}, or no consumer of it, at present") from error
        except self._nats.errors.Error as error:
            kind = RecomposeError if isinstance(error, self._nats.errors.AuthorizationError) else OSError
            raise kind(f"nats does not answer: {error}") from error

    async def _begin(self, position: Position | None) -> None:
        await self._leave()
        self._client = await self._nats.connect(self._server, error_cb=told_by_answers, **ONCE)
        stream = self._client.jetstream(timeout=ANSWER_S)
        info = await stream.stream_info(self._stream)
        there, self._per_subject = info.state, info.config.max_msgs_per_subject or 0
        # Numbers begin at 1; a stream that never had a message reports 0.
        self._next = max(1, there.first_seq) if position is None else int(str(position))
        if self._next > there.last_seq + 1:
            raise RecomposeError(f"nats no longer has the next messages in stream {self._stream!r}; start a new run")
        self._look_for_gap(there.first_seq)
        api = self._nats.js.api
        how = api.ConsumerConfig(
            deliver_policy=api.DeliverPolicy.ALL if position is None else api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=None if position is None else int(str(position)),
            ack_policy=api.AckPolicy.NONE,
            inactive_threshold=FORGET_S,
            filter_subject=self._subject,
            mem_storage=True,
        )
        self._messages = await stream.pull_subscribe(self._subject or "", stream=self._stream, config=how)
        self._heard_s = monotonic()

    async def _fetch(self, most: int, wait_s: float) -> Sequence[Message]:
        try:
            messages = await self._messages.fetch(most, wait_s)
        except self._nats.errors.TimeoutError:
            if self._client.is_closed:
                raise OSError("nats has closed the connection") from None
            await self._look()
            return ()
        self._heard_s = monotonic()
        found = [Message(self._stream, each.metadata.sequence.stream + 1, each.data) for each in messages]
        await self._passed(found)
        return found

    async def _passed(self, messages: Sequence[Message]) -> None:
        """Check skipped numbers: of other subjects, deleted, or dropped by limits of the stream or the subject."""
        first, missing = None, 0
        for each in messages:
            number = int(str(each.behind)) - 1
            if number > self._next:
                if first is None:
                    first = (await self._client.jetstream(timeout=ANSWER_S).stream_info(self._stream)).state.first_seq
                self._look_for_gap(min(first, number))
                missing += number - self._next
            self._next = number + 1
        if missing and self._per_subject > 0 and self._subject is None:
            kept = f"stream {self._stream!r} keeps {self._per_subject} messages per subject, and has dropped others"
            log.warning("messages were dropped", source="nats", what=kept, count=missing, before=self._next)

    def _look_for_gap(self, first: int) -> None:
        """Check for a gap before ``first``, the oldest message kept. Raises: RecomposeError if unread ones are gone."""
        if first <= self._next:
            return
        gone = f"stream {self._stream!r} has dropped {self._next} to {first - 1}, which were not read"
        if self._subject is None and not self._goes_on:
            raise RecomposeError(f"nats no longer has the next messages: {gone}; start a new run, or set on_gap=go-on")
        log.warning("messages were dropped before they were read", source="nats", what=gone, subject=self._subject)
        self._next = first

    async def _look(self) -> None:
        """Check that the consumer still exists, after ``QUIET_S`` without a message."""
        if monotonic() - self._heard_s >= QUIET_S:
            await self._messages.consumer_info()
            self._heard_s = monotonic()

    async def _leave(self) -> None:
        if self._client is not None and not self._client.is_closed:
            await self._client.close()
        self._client = None


def _address(url: str) -> tuple[str, str]:
    """Return the server's URL and the stream's name. Raises: RecomposeError."""
    parts = parts_of(url, WHO, FORM, scheme="nats")
    stream = parts.path.strip("/")
    if not parts.hostname or not stream or "/" in stream:
        raise RecomposeError(f"{without_user(url)!r} names no server and stream; give {FORM}")
    if parts.query:
        name = parts.query.partition("=")[0]
        raise RecomposeError(f"the path of source nats has a parameter {name!r}; none is accepted")
    return parts._replace(path="").geturl(), stream
