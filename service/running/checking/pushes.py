"""The way in for items that are pushed, before a run is up too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from apps.contract import App
from apps.input.push import Push
from apps.input.sources import Arrival, Source
from compositions.errors import RecomposeError


class PushDoor:
    """Takes items from any thread. Shut where the source is another ``kind`` than push."""

    def __init__(self, app: App, source: Source, kind: str) -> None:
        self._app, self._kind = app, kind
        self._source = source if isinstance(source, Push) else None

    @property
    def accepted(self) -> int:
        """Items that were given a serial number."""
        return self._source.accepted if self._source is not None else 0

    @property
    def waiting(self) -> int:
        """Items that were accepted and not read yet."""
        return self._source.waiting if self._source is not None else 0

    def put(self, value: Any) -> int:
        """The item's serial number.

        Raises: BufferFull; RecomposeError when the source is not ``push`` or the app refuses the value.
        """
        source = self._open()
        return source.put(self._item(value))

    def put_all(self, values: Sequence[Any]) -> tuple[list[int], RecomposeError | None]:
        """The serial numbers of those before the first that is refused, and why that one is."""
        serials: list[int] = []
        for value in values:
            try:
                serials.append(self.put(value))
            except RecomposeError as error:
                return serials, error
        return serials, None

    def _open(self) -> Push:
        if self._source is None:
            message = f"{self._app.name} reads its items from source {self._kind!r}; start it with source 'push'"
            raise RecomposeError(message)
        return self._source

    def _item(self, value: Any) -> Any:
        try:
            binary = isinstance(value, bytes | np.ndarray)
            return self._app.from_binary(value) if binary else self._app.from_json(value)
        except (ValueError, TypeError, KeyError) as error:
            raise RecomposeError(f"{self._app.name} does not take this item: {error}") from error


class Ledger(Protocol):
    """Where items are stored before they are acknowledged."""

    def push(self, values: tuple[Any, ...], items: Sequence[Any]) -> int:
        """The serial number of the first; returns when they are stored. Raises: RecomposeError when they are not."""


class JournalledDoor(PushDoor):
    """Acknowledges what is stored, and nothing else: ``ledger`` gives the items to the source when they are."""

    def __init__(self, app: App, source: Source, kind: str, ledger: Ledger) -> None:
        super().__init__(app, source, kind)
        self._ledger = ledger

    def put(self, value: Any) -> int:
        source = self._open()
        return self._stored(source, (value,), [source.announced(self._item(value))])

    def put_all(self, values: Sequence[Any]) -> tuple[list[int], RecomposeError | None]:
        """All that are taken are stored together."""
        arrivals: list[Arrival] = []
        refusal: RecomposeError | None = None
        try:
            source = self._open()
            for value in values:
                item = self._item(value)
                arrivals.append(source.announced(item))
        except RecomposeError as error:
            refusal = error
        if not arrivals:
            return [], refusal
        try:
            first = self._stored(source, tuple(values[: len(arrivals)]), arrivals)
        except RecomposeError as error:
            return [], error
        return list(range(first, first + len(arrivals))), refusal

    def _stored(self, source: Push, values: tuple[Any, ...], arrivals: list[Arrival]) -> int:
        try:
            return self._ledger.push(values, arrivals)
        except BaseException:
            source.withdraw(len(arrivals))
            raise

    def take_back(self, values: Sequence[Any], accepted: int) -> None:
        """What a runner before this one acknowledged and did not deliver; ``accepted`` items there were in all."""
        self._open().begin([self._item(value) for value in values], accepted)
