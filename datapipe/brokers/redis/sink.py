"""A Redis stream, over ``redis``: ``redis://HOST:6379/0?stream=NAME``. Each result is an entry with ``run``,
``serial``, ``part`` if the item has several values, and ``value`` (JSON) or ``error``.

A hash beside it, with ``:runs`` added to the name, has each run's writing epoch and progress. One script changes both,
which the server runs atomically.
"""

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, urlunsplit

from compositions.errors import RecomposeError
from datapipe.brokers.opening import library, parts_of
from datapipe.brokers.redis.source import told
from datapipe.sinks.port import AT_ONCE, Row, followed

WHO, FORM = "sink redis", "redis://HOST:6379/0?stream=NAME"

BEGIN = """
local run, epoch, wanted = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local before, done = string.match(redis.call('HGET', KEYS[2], run) or '0 0', '^(%d+) (%d+)$')
if tonumber(before) > epoch then return -1 end
local till = math.min(tonumber(done), wanted)
local last, over = '+', tonumber(done) <= wanted
while not over do
  local found = redis.call('XREVRANGE', KEYS[1], last, '-', 'COUNT', 1000)
  over = #found == 0
  for _, entry in ipairs(found) do
    local fields = {}
    for at = 1, #entry[2], 2 do fields[entry[2][at]] = entry[2][at + 1] end
    if fields.run == run and tonumber(fields.serial) < till then over = true; break end
    if fields.run == run then redis.call('XDEL', KEYS[1], entry[1]) end
    last = '(' .. entry[1]
  end
end
redis.call('HSET', KEYS[2], run, epoch .. ' ' .. till)
return till
"""
WRITE = """
local run, epoch, till = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local before, done = string.match(redis.call('HGET', KEYS[2], run) or '0 0', '^(%d+) (%d+)$')
if tonumber(before) ~= epoch then return -1 end
if tonumber(done) >= till then return 0 end
for at = 4, #ARGV do
  for _, fields in ipairs(cjson.decode(ARGV[at])) do redis.call('XADD', KEYS[1], '*', unpack(fields)) end
end
redis.call('HSET', KEYS[2], run, epoch .. ' ' .. till)
return 1
"""
FOLLOWED = -1
TOGETHER = 1000
"""Maximum number of results in one argument of the script: the server accepts a million arguments, and one item may
have that many values."""


class RedisSink:
    """Raises: RecomposeError for a URL that names no stream, or if the library is missing."""

    gather = AT_ONCE

    def __init__(self, url: str, run: str, epoch: int) -> None:
        parts = parts_of(url, WHO, FORM)
        asked = parse_qs(parts.query)
        streams = asked.get("stream", [])
        if parts.scheme not in ("redis", "rediss") or len(streams) != 1:
            raise RecomposeError(f"the path of {WHO} names no stream; give {FORM}")
        if len(asked) > 1:
            strange = next(name for name in asked if name != "stream")
            raise RecomposeError(f"the path of sink redis has a parameter {strange!r}; only stream is accepted")
        redis = library("redis", WHO, "the package redis", "redis")
        self._errors: Any = redis.exceptions
        self._client: Any = redis.Redis.from_url(urlunsplit(parts._replace(query="")), socket_timeout=5)
        self._begin, self._write = self._client.register_script(BEGIN), self._client.register_script(WRITE)
        self._keys = [streams[0], f"{streams[0]}:runs"]
        self._run, self._epoch = run, epoch

    def begin(self, next_serial: int, known: int) -> int:
        return self._answer(self._begin, next_serial)

    def write(self, until: int, rows: Sequence[Row]) -> None:
        together = ([*map(self._words, rows[at : at + TOGETHER])] for at in range(0, len(rows), TOGETHER))
        self._answer(self._write, until, *(json.dumps(some, ensure_ascii=False) for some in together))

    def close(self) -> None:
        self._client.close()

    def _words(self, row: Row) -> list[str]:
        """Return names and values in turn, as text: Lua's numbers are not integers."""
        fields = {"run": self._run, **{name: str(value) for name, value in row._asdict().items() if value is not None}}
        return [word for field in fields.items() for word in field]

    def _answer(self, script: Any, *args: Any) -> int:
        try:
            answer = int(script(keys=self._keys, args=[self._run, self._epoch, *args]))
        except self._errors.RedisError as error:
            raise told(error, "sink redis cannot be written") from error
        if answer == FOLLOWED:
            raise followed(self._run)
        return answer
