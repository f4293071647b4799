"""Redis Streams, over ``redis``: ``redis://HOST:6379/0?stream=orders&stream=returns``. An entry with one field is the
item, in whatever way that field is called; one with several is an object of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

from apps.input.fed import Message, without_user
from apps.input.positions import Position
from compositions.errors import RecomposeError

BEGINNING = "0-0"
BLOCK_MS = 1
"""0 would be for ever."""


class RedisFeed:
    """A partition is a stream, its position the id of the last entry that was read.

    Option ``trim``: entries that are done for good are removed. Raises: RecomposeError for a URL without a stream,
    an unknown option, or where the library is missing.
    """

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        try:
            parts = urlsplit(url, scheme="redis")
            _ = parts.port  # looked at here: the library would say less of it
        except ValueError:
            raise RecomposeError("the path of source redis is no URL; give redis://HOST:PORT/0?stream=NAME") from None
        asked = parse_qs(parts.query, keep_blank_values=True)
        streams = asked.pop("stream", [])
        if not any(streams):
            raise RecomposeError(f"{without_user(url)!r} names no stream; give redis://HOST:PORT/0?stream=NAME")
        if asked:
            raise RecomposeError(
                f"the path of source redis has a parameter {next(iter(asked))!r}; it takes stream only"
            )
        if set(options) - {"trim"}:
            raise RecomposeError(f"source redis has no option {sorted(set(options) - {'trim'})[0]!r}; it has trim")
        try:
            import redis
        except ModuleNotFoundError as error:
            raise RecomposeError("source redis needs the package redis: pip install 'recompose[redis]'") from error
        self._errors = redis.RedisError
        self._client: Any = redis.Redis.from_url(urlunsplit(parts._replace(query="")), socket_timeout=5)
        self._at: dict[str, str] = dict.fromkeys(streams, BEGINNING)
        self._trim = options.get("trim") is True
        self.ended = False

    def seek(self, positions: Mapping[str, Position]) -> None:
        self._at = {stream: str(positions.get(stream, BEGINNING)) for stream in self._at}

    def poll(self, most: int, wait_s: float) -> Sequence[Message]:
        block_ms = max(BLOCK_MS, int(wait_s * 1000))
        try:
            streams = self._client.xread(self._at, count=most, block=block_ms)
        except self._errors as error:
            raise OSError(f"redis does not answer: {error}") from error
        pairs = streams.items() if isinstance(streams, dict) else streams
        found = [_message(stream, *entry) for stream, entries in pairs for entry in _flat(entries)]
        self._at.update((message.partition, str(message.behind)) for message in found)
        return found

    def commit(self, positions: Mapping[str, Position]) -> None:
        if not self._trim:
            return
        try:
            for stream, position in positions.items():
                self._client.xtrim(stream, minid=_behind(str(position)), approximate=False)
        except self._errors as error:
            raise OSError(f"redis does not answer: {error}") from error

    def close(self) -> None:
        self._client.close()


def _flat(entries: Any) -> Any:
    """Newer versions of the library wrap what a stream gave in one more list."""
    return entries[0] if entries and isinstance(entries[0], list) else entries


def _message(stream: bytes, identity: bytes, fields: Mapping[bytes, bytes]) -> Message:
    body: Any = next(iter(fields.values())) if len(fields) == 1 else {_text(k): _text(v) for k, v in fields.items()}
    return Message(_text(stream), _text(identity), body)


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def _behind(identity: str) -> str:
    """The first id after it."""
    milliseconds, _, sequence = identity.partition("-")
    return f"{milliseconds}-{int(sequence) + 1}"
