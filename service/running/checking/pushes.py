"""The way in for items that are pushed, before a run is up too."""

from __future__ import annotations

from typing import Any

import numpy as np

from apps.contract import App
from apps.input.sources import Push, Source
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
        name = self._app.name
        if self._source is None:
            raise RecomposeError(f"{name} reads its items from source {self._kind!r}; start it with source 'push'")
        try:
            binary = isinstance(value, bytes | np.ndarray)
            item = self._app.from_binary(value) if binary else self._app.from_json(value)
        except (ValueError, TypeError, KeyError) as error:
            raise RecomposeError(f"{name} does not take this item: {error}") from error
        return self._source.put(item)
