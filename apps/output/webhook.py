"""Results to a URL, over httpx: a ``POST`` an item, in order, with a key by which the other end tells doubles.

``Idempotency-Key: RUN-SERIAL``; the body is ``{"run": …, "serial": …}`` with ``values``, a list, or ``error``. What is
not answered with success is sent again. A server cannot be asked to shut an epoch out: ``Recompose-Epoch`` names it.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import httpx

from apps.output.port import Gather, Row
from compositions.errors import RecomposeError

ANSWER_S = 10.0
HEADER = re.compile("[!-~]+(?: +[!-~]+)*")
"""What a value of a header may be."""
LATER = (408, 425, 429)
"""Beside those from 500 on: the same may succeed later."""


class Webhook:
    """``authorization``: the header of that name. Raises: RecomposeError for what is no URL."""

    gather = Gather(100, 0.0)

    def __init__(self, url: str, run: str, epoch: int, authorization: str | None = None) -> None:
        try:
            self._url = httpx.URL(url)
            self._url.raw_host.decode("ascii").encode("idna")  # as the resolver does: not every host is a name
        except (httpx.InvalidURL, UnicodeError):
            self._url = httpx.URL("")
        if self._url.scheme not in ("http", "https") or not self._url.host:
            raise RecomposeError("the path of sink webhook is no URL; give https://HOST/PATH")
        if authorization is not None and not HEADER.fullmatch(authorization):
            raise RecomposeError(
                "option authorization of sink webhook is no value of a header; give one line of printable ASCII"
            )
        logging.getLogger("httpx").setLevel(logging.WARNING)  # it tells each URL, which may have a token in it
        headers = {"Content-Type": "application/json", "Recompose-Epoch": str(epoch), "Accept-Encoding": "identity"}
        headers |= {} if authorization is None else {"Authorization": authorization}
        self._client = httpx.Client(timeout=ANSWER_S, headers=headers)
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
        self._client.close()

    def _post(self, serial: int, parts: Sequence[Row]) -> None:
        key = {"Idempotency-Key": f"{self._run}-{serial}"}
        try:
            answer = self._client.post(self._url, content=json.dumps(self._body(serial, parts)), headers=key)
        except httpx.TransportError as error:
            raise OSError(f"webhook {self._url.host} does not answer: {error or type(error).__name__}") from error
        if not answer.is_success:
            lasting = answer.status_code < 500 and answer.status_code not in LATER
            kind = RecomposeError if lasting else OSError
            raise kind(f"webhook {self._url.host} answers item {serial} with {answer.status_code}")

    def _body(self, serial: int, parts: Sequence[Row]) -> dict[str, Any]:
        errors = [part.error for part in parts if part.error is not None]
        told: dict[str, Any] = {"error": errors[0]} if errors else {"values": [_plain(part) for part in parts]}
        return {"run": self._run, "serial": serial, **told}


def _plain(part: Row) -> Any:
    return None if part.value is None else json.loads(part.value)
