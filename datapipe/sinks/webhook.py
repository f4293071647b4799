"""Post results to a URL, over httpx: one ``POST`` per item, in order, with a key by which the receiver finds
duplicates.

``Idempotency-Key: RUN-SERIAL``; the body is ``{"run": …, "serial": …}`` with ``values``, a list, or ``error``. A
request that is not answered with success is sent again. A server cannot be asked to shut an epoch out:
``Recompose-Epoch`` names it. Only the status of an answer counts: one without end, or one that cannot be decoded,
delays nothing. Alerts post in the same way (``service/daemon/alerts.py``).
"""

import asyncio
import json
import logging
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import httpx

from compositions.errors import RecomposeError
from datapipe.sinks.port import Gather, Row

ANSWER_S = 10.0
"""Time limit of a whole request, in seconds: connecting, sending, and reading the answer's status."""
MOST_READ = 64 * 1024
"""Maximum number of body bytes read, so that the connection can be reused; the body itself is not needed."""
HEADER = re.compile("[!-~]+(?: +[!-~]+)*")
"""The valid values of a header."""
LATER = (408, 425, 429)
"""Statuses, beside those from 500 on, after which a retry may succeed."""


class Posts:
    """Posts JSON to URLs and returns the status of each answer. It is used by one thread at a time and has its own
    event loop: only there can a whole request have a time limit, while a plain client limits each read."""

    def __init__(self, within_s: float, headers: Mapping[str, str] = {}, *, trust_env: bool = True) -> None:
        logging.getLogger("httpx").setLevel(logging.WARNING)  # httpx logs each URL, which may contain a token
        self._within_s = within_s
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", **headers}
        self._client = httpx.AsyncClient(timeout=within_s, headers=headers, trust_env=trust_env)
        self._loop = asyncio.Runner()

    def post(self, url: httpx.URL | str, body: object, headers: Mapping[str, str] = {}) -> int:
        """Post the body and return the status. Raises: httpx.TransportError if there is no status in time;
        httpx.InvalidURL; UnicodeError for a bad host."""
        return self._loop.run(self._posted(url, json.dumps(body), headers))

    def close(self) -> None:
        with self._loop:
            self._loop.run(self._client.aclose())

    async def _posted(self, url: httpx.URL | str, body: str, headers: Mapping[str, str]) -> int:
        status: int | None = None
        try:
            async with (
                asyncio.timeout(self._within_s),
                self._client.stream("POST", url, content=body, headers=headers) as answer,
            ):
                status, read = answer.status_code, 0
                async for part in answer.aiter_raw():
                    read += len(part)
                    if read > MOST_READ:
                        break
        except TimeoutError:
            if status is None:
                raise httpx.ReadTimeout(f"no status within {self._within_s:g} s") from None
        except httpx.TransportError:
            if status is None:
                raise
        return status


class Webhook:
    """A sink that posts to a URL. ``authorization``: the header of that name. Raises: RecomposeError for a bad URL."""

    gather = Gather(100, 0.0)

    def __init__(self, url: str, run: str, epoch: int, authorization: str | None = None) -> None:
        try:
            self._url = httpx.URL(url)
            self._url.raw_host.decode("ascii").encode("idna")  # as the resolver does: not every host is valid
        except (httpx.InvalidURL, UnicodeError):
            self._url = httpx.URL("")
        if self._url.scheme not in ("http", "https") or not self._url.host:
            raise RecomposeError("the path of sink webhook is no URL; give https://HOST/PATH")
        if authorization is not None and not HEADER.fullmatch(authorization):
            what = "option authorization of sink webhook is no value of a header"
            raise RecomposeError(f"{what}; give one line of printable ASCII")
        headers = {} if authorization is None else {"Authorization": authorization}
        self._posts = Posts(ANSWER_S, {"Recompose-Epoch": str(epoch), **headers})
        self._run, self._until = run, 0

    def begin(self, next_serial: int, known: int) -> int:
        self._until = known
        return known

    def write(self, until: int, rows: Sequence[Row]) -> None:
        for serial, parts in groupby(rows, key=lambda row: row.serial):
            if serial >= self._until:
                self._post(serial, list(parts))
                self._until = serial + 1
        self._until = until

    def close(self) -> None:
        self._posts.close()

    def _post(self, serial: int, parts: Sequence[Row]) -> None:
        key = {"Idempotency-Key": f"{self._run}-{serial}"}
        try:
            status = self._posts.post(self._url, self._body(serial, parts), key)
        except httpx.TransportError as error:
            raise OSError(f"webhook {self._url.host} does not answer: {str(error) or type(error).__name__}") from error
        if not 200 <= status < 300:
            lasting = status < 500 and status not in LATER
            kind = RecomposeError if lasting else OSError
            raise kind(f"webhook {self._url.host} answered item {serial} with status {status}")

    def _body(self, serial: int, parts: Sequence[Row]) -> dict[str, Any]:
        errors = [part.error for part in parts if part.error is not None]
        values = [None if part.value is None else json.loads(part.value) for part in parts]
        told: dict[str, Any] = {"error": errors[0]} if errors else {"values": values}
        return {"run": self._run, "serial": serial, **told}
