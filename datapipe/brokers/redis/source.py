"""Redis Streams, over ``redis``: ``redis://HOST:6379/0?stream=orders&stream=returns``. An entry with one field is the
item, whatever the name of the field; one with several is an object of texts."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlunsplit

import structlog

from compositions.errors import RecomposeError
from compositions.wording import without_user
from datapipe.brokers.opening import library, parts_of
from datapipe.sources.fed import Message, check_options, goes_on
from datapipe.sources.portions import Position

log = structlog.get_logger()
WHO, FORM = "source redis", "redis://HOST:PORT/0?stream=NAME"
NEVER = re.compile("WRONGTYPE|NOPERM|DB index is out of range")
"""Errors of a server that a retry would get again. The library drops the error code of those that refuse a user."""
ADDED = "entries-added"
"""Field of the server's stream information, from Redis 7.0 on."""
NO_STREAM = {ADDED: 0, "length": 0, "max-deleted-entry-id": "0-0", "first-entry": None}
BLOCK_MS = 1
"""0 would be for ever."""
Id = tuple[int, int]
"""Id of an entry, in the server's order: milliseconds, and a sequence number within the millisecond."""


@dataclass(slots=True)
class Place:
    """The position in a stream: how far it was read."""

    last: Id
    """Id of the last entry that was read."""
    count: int | None = None
    """Number of entries ever added up to that one. None: unknown."""
    begun: bool = False
    """True if the stream was read from before."""

    @classmethod
    def of(cls, position: Position | None) -> "Place":
        """Return the place for a stored position; an earlier version stored the id alone."""
        if isinstance(position, tuple):
            ms, number, *count = position
            return cls((ms, number), count[0] if count else None, begun=True)
        return cls((0, 0)) if position is None else cls(_id(str(position)), begun=True)


class RedisFeed:
    """A feed that reads Redis streams. A partition is a stream; its position is the id of the last entry that was read,
    and the number of entries added up to it.

    Option ``trim``: remove entries that are complete. Option ``on_gap``: whether the run ends if entries were trimmed
    before they were read. Raises: RecomposeError for a URL without a stream, an unknown option, or a missing library.
    """

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        parts = parts_of(url, WHO, FORM, scheme="redis")
        asked = parse_qs(parts.query, keep_blank_values=True)
        streams = asked.pop("stream", [])
        if not any(streams):
            raise RecomposeError(f"{without_user(url)!r} names no stream; give {FORM}")
        if asked:
            strange = next(iter(asked))
            raise RecomposeError(f"the path of source redis has a parameter {strange!r}; only stream is accepted")
        check_options(WHO, options, ("trim", "on_gap"))
        self._trim, self._goes_on = options.get("trim") is True, goes_on(WHO, options)
        redis = library("redis", WHO, "the package redis", "redis")
        self._errors = redis.RedisError
        self._client: Any = redis.Redis.from_url(urlunsplit(parts._replace(query="")), socket_timeout=5)
        self._places = {stream: Place.of(None) for stream in streams}
        self.ended = False

    def seek(self, positions: Mapping[str, Position]) -> None:
        self._places = {stream: Place.of(positions.get(stream)) for stream in self._places}

    def poll(self, most: int, wait_s: float) -> Sequence[Message]:
        try:
            found = self._read(most)
            if found or not wait_s:
                return found
            self._client.xread(self._asked(), count=1, block=max(BLOCK_MS, int(wait_s * 1000)))
            return self._read(most)
        except self._errors as error:
            raise told(error, "source redis cannot be read") from error

    def commit(self, positions: Mapping[str, Position]) -> None:
        if not self._trim:
            return
        try:
            for stream, position in positions.items():
                ms, number = Place.of(position).last
                self._client.xtrim(stream, minid=_shown((ms, number + 1)), approximate=False)
        except self._errors as error:
            raise told(error, "source redis cannot be read") from error

    def close(self) -> None:
        self._client.close()

    def _asked(self) -> dict[Any, Any]:
        return {stream: _shown(place.last) for stream, place in self._places.items()}

    def _read(self, most: int) -> list[Message]:
        """Read new entries, together with the server's information about the streams at the same moment."""
        with self._client.pipeline(transaction=True) as together:
            for stream in self._places:
                together.xinfo_stream(stream)
            together.xread(self._asked(), count=most)
            *infos, answer = together.execute(raise_on_error=False)
        for each in (*infos, answer):
            if isinstance(each, self._errors) and "no such key" not in str(each):
                raise each
        pairs = answer.items() if isinstance(answer, dict) else answer
        entries = {_text(stream): _flat(some) for stream, some in pairs}
        found: list[Message] = []
        for (stream, place), info in zip(self._places.items(), infos, strict=True):
            some = entries.get(stream, ())
            self._compare(stream, place, info if isinstance(info, dict) else NO_STREAM)
            found += _messages(stream, place, some)
            if isinstance(info, dict) and len(some) < most:
                place.count = info.get(ADDED)
        return found

    def _compare(self, stream: str, place: Place, info: Mapping[str, Any]) -> None:
        """Detect entries that were trimmed before they were read: all that are gone must have been read. If single ones
        were deleted after the last one that was read, their number is unknown. Raises: RecomposeError for a gap."""
        if (added := info.get(ADDED)) is None:
            place.count, place.begun = None, True
            return
        gone, deleted = added - info["length"], _id(_text(info["max-deleted-entry-id"])) > place.last
        first = info["first-entry"]
        trimmed = first is None or _id(_text(first[0])) > place.last
        missing = gone - place.count if trimmed and place.count is not None else 0
        if trimmed or not place.begun:
            place.count = gone
        place.begun = True
        if deleted:
            place.count = None
        if missing <= 0:
            return
        what = f"stream {stream!r} has dropped {missing:,} entries after {_shown(place.last)}, which were not read"
        if not deleted and not self._goes_on:
            raise RecomposeError(f"redis no longer has the next entries: {what}; start a new run, or set on_gap=go-on")
        log.warning("entries were removed before they were read", source="redis", what=what, count=missing)


def told(error: Any, what: str) -> Exception:
    """Return the run's exception for an error of the library: RecomposeError if it is permanent, else OSError."""
    from redis import exceptions

    refused = isinstance(error, exceptions.AuthenticationError | exceptions.NoPermissionError)
    kind = RecomposeError if refused or NEVER.search(str(error)) else OSError
    return kind(f"{what}: {error}")


def _flat(entries: Any) -> Any:
    """Newer versions of the library wrap what a stream gave in one more list."""
    return entries[0] if entries and isinstance(entries[0], list) else entries


def _messages(stream: str, place: Place, entries: Iterable[tuple[bytes, Mapping[bytes, bytes]]]) -> Iterator[Message]:
    last, count = place.last, place.count
    for identity, fields in entries:
        ms, _, number = identity.partition(b"-")
        place.last = last = int(ms), int(number)
        if count is not None:
            place.count = count = count + 1
            behind: Position = (*last, count)
        else:
            behind = last
        body: Any = next(iter(fields.values())) if len(fields) == 1 else {_text(k): _text(v) for k, v in fields.items()}
        yield Message(stream, behind, body)


def _text(raw: bytes | str) -> str:
    return raw.decode(errors="replace") if isinstance(raw, bytes) else raw


def _id(text: str) -> Id:
    ms, _, number = text.partition("-")
    return int(ms), int(number or 0)


def _shown(identity: Id) -> str:
    return f"{identity[0]}-{identity[1]}"
