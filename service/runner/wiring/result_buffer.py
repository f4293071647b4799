"""Buffer of the latest results, in batches of consecutive items; bodies are made of them when a client reads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, overload

from apps.contract import Outputs
from service.schemas.results import Result


class ResultBatch:
    """Results with consecutive serial numbers: ``values``, one an item, or as many places with the same ``error``."""

    __slots__ = ("_count", "error", "first", "several", "size_bytes", "texts", "values")

    def __init__(
        self,
        first: int,
        values: Sequence[Any],
        error: str | None = None,
        size_bytes: int = 0,
        several: bool | None = None,
        texts: Sequence[str] | None = None,
    ) -> None:
        """``size_bytes``: about what they weigh. ``several``: as below, where it is known."""
        self.first, self.values, self.error, self.size_bytes = first, values, error, size_bytes
        # Looked for one by one: a journal of an earlier version has some that were never made by a call.
        self.several = Outputs in set(map(type, values)) if several is None else several
        """Whether an item may have several values, or none."""
        self.texts = texts
        """The values as JSON, until they have been written to where results go."""
        self._count = sum(map(_rows_of, values)) if self.several else len(values)

    def __len__(self) -> int:
        """Rows."""
        return self._count

    def results(self, start: int = 0, stop: int | None = None) -> Iterator[Result]:
        """The rows from ``start`` to before ``stop``."""
        if self.several:
            return (Result(**row) for row in islice(self.rows(), start, stop))
        serials = range(self.first, self.first + len(self.values))[start:stop]
        if self.error is not None:
            return (Result(serial=serial, error=self.error) for serial in serials)
        return (
            Result(serial=serial, value=value) for serial, value in zip(serials, self.values[start:stop], strict=True)
        )

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of a file of results."""
        for serial, value in enumerate(self.values, self.first):
            if self.error is not None:
                yield {"serial": serial, "error": self.error}
            elif self.several and type(value) is Outputs:
                yield from ({"serial": serial, "part": part, "value": each} for part, each in enumerate(value))
            else:
                yield {"serial": serial, "value": value}

    def items(self) -> Iterator[dict[str, Any]]:
        """Yield one row per item, as tables take them: an item of several values, or of none, has ``values``."""
        for serial, value in enumerate(self.values, self.first):
            if self.error is not None:
                yield {"serial": serial, "error": self.error}
            else:
                yield {"serial": serial, "values" if type(value) is Outputs else "value": value}


def _rows_of(value: Any) -> int:
    return len(value) if type(value) is Outputs else 1


class ResultBuffer(Sequence[Result]):
    """Retains at least the newest ``most`` rows, unless they weigh more than ``most_bytes``. Older rows go with the
    whole of their batch."""

    def __init__(self, most: int, most_bytes: int = 2**60) -> None:
        self._most, self.most_bytes = most, most_bytes
        self._runs: deque[ResultBatch] = deque()
        self._count = self.size_bytes = 0
        self.since = self.until = 0
        """All rows of items from this serial number on are here, to before that one."""

    def begin(self, serial: int) -> None:
        """Begin at ``serial``: earlier results went long ago."""
        self.since = self.until = serial

    def add(self, run: ResultBatch) -> None:
        self.until = run.first + len(run.values)
        if not run:  # none of its items gave anything
            return
        self._runs.append(run)
        self._count += len(run)
        self.size_bytes += run.size_bytes
        while self._count - len(self._runs[0]) >= self._most or self._too_heavy:
            oldest = self._runs.popleft()
            self._count -= len(oldest)
            self.size_bytes -= oldest.size_bytes
            self.since = oldest.first + len(oldest.values)

    @property
    def _too_heavy(self) -> bool:
        """The newest stays, whatever it weighs."""
        return self.size_bytes > self.most_bytes and len(self._runs) > 1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Result]:
        for run in self._runs:
            yield from run.results()

    @overload
    def __getitem__(self, index: int) -> Result: ...

    @overload
    def __getitem__(self, index: slice) -> list[Result]: ...

    def __getitem__(self, index: int | slice) -> Result | list[Result]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._count)
            return list(self._between(start, stop))[::step]
        wanted = index + self._count if index < 0 else index
        for found in self._between(wanted, wanted + 1):
            return found
        raise IndexError(f"result {index} of {self._count}")

    def _between(self, start: int, stop: int) -> Iterator[Result]:
        """Passes over what comes before without making anything of it."""
        begin = 0
        for run in self._runs:
            if begin >= stop:
                return
            if begin + len(run) > start:
                yield from run.results(max(0, start - begin), min(len(run), stop - begin))
            begin += len(run)
