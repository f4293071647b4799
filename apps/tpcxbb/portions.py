"""Portions: many rows in one item, each column as the bytes of its 64-bit numbers.

A stage that declares its columns as ``binary`` gets a bundle of portions as a record batch whose buffers are the long
columns, with nothing to convert: rows as dicts would cost 18 µs each at every such stage (docs/decisions/0011-data.md).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from apps.contract import Outputs

Ints = NDArray[np.int64]
NO_NEWS = -1
"""The watermark of a portion that does not advance the stream's watermark."""
END = 1 << 62
"""The watermark after the last row."""
_WATERMARK, _PART = "watermark", "part"


def columns_for(*names: str) -> tuple[tuple[str, str], ...]:
    """Return the declaration of a stage that gets portions with these columns."""
    return (*((name, "binary") for name in names), (_WATERMARK, "int64"), (_PART, "int64"))


@dataclass(frozen=True)
class Portions:
    """A bundle of portions, end to end. ``owner``: for each row, the number of its portion."""

    columns: dict[str, Ints]
    owner: Ints
    watermarks: Ints
    """The watermark of each portion (no later row is before this time), or ``NO_NEWS``."""
    parts: Ints
    """The partition of each portion."""

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> Self:
        """Return the portions in the form that the stage receives."""
        names = [name for name in batch.schema.names if name not in (_WATERMARK, _PART)]
        columns = {name: _numbers(batch.column(name)) for name in names}
        lengths = np.diff(_offsets(batch.column(names[0]))) // 8
        owner = np.repeat(np.arange(len(lengths)), lengths)
        return cls(columns, owner, batch.column(_WATERMARK).to_numpy(), batch.column(_PART).to_numpy())

    @classmethod
    def one(cls, value: dict[str, Any]) -> Self:
        """Return one portion, in the form that a stage with a state receives."""
        columns = {n: np.frombuffer(data, np.int64) for n, data in value.items() if n not in (_WATERMARK, _PART)}
        rows = len(next(iter(columns.values())))
        return cls(columns, np.zeros(rows, np.int64), np.array([value[_WATERMARK]]), np.array([value[_PART]]))

    @property
    def count(self) -> int:
        return len(self.watermarks)

    @property
    def watermark(self) -> int:
        """Return the watermark of the last portion."""
        return int(self.watermarks[-1])

    def of_rows(self, columns: dict[str, Ints]) -> "Portions":
        """Return a single portion with other rows in place of its own."""
        return Portions(columns, np.zeros(len(next(iter(columns.values()))), np.int64), self.watermarks, self.parts)

    def replaced(self, **columns: Ints) -> "Portions":
        """Return the portions with other columns, row for row."""
        return Portions(columns, self.owner, self.watermarks, self.parts)

    def __getitem__(self, name: str) -> Ints:
        return self.columns[name]

    def where(self, chosen: NDArray[np.bool_]) -> "Portions":
        columns = {name: column[chosen] for name, column in self.columns.items()}
        return Portions(columns, self.owner[chosen], self.watermarks, self.parts)

    def bounds(self) -> list[int]:
        """Return the first row of each portion, and the end of the last."""
        return np.searchsorted(self.owner, np.arange(self.count + 1)).tolist()

    def packed(self) -> list[dict[str, Any]]:
        """Return the portions as values, one each."""
        return _packed(self.columns, self.bounds(), self.watermarks.tolist(), self.parts.tolist())

    def spread(self, part: Ints, partitions: int, closing: int) -> list[Outputs]:
        """Divide each portion into one per partition; ``part`` gives each row's partition. All get the watermark if the
        portion belongs to partition ``closing``, which is the last of an item; otherwise, none gets it."""
        place = self.owner * partitions + part
        order = np.argsort(place, kind="stable")
        count = self.count * partitions
        bounds = np.searchsorted(place[order], np.arange(count + 1)).tolist()
        news = np.where(self.parts == closing, self.watermarks, NO_NEWS)
        parts = list(range(partitions)) * self.count
        packed = _packed(
            {name: column[order] for name, column in self.columns.items()},
            bounds, np.repeat(news, partitions).tolist(), parts,
        )  # fmt: skip
        return [Outputs(packed[first : first + partitions]) for first in range(0, count, partitions)]


def part_of(value: dict[str, Any]) -> int:
    """Return the partition that a portion belongs to."""
    return int(value[_PART])


def news_of(value: dict[str, Any], closing: int) -> int:
    """Return how far the stream has advanced in the portions of all partitions; ``closing`` is the last one."""
    return int(value[_WATERMARK]) if value[_PART] == closing else NO_NEWS


def packed(columns: dict[str, Ints], watermark: int, part: int = 0) -> dict[str, Any]:
    return {**{name: column.tobytes() for name, column in columns.items()}, _WATERMARK: watermark, _PART: part}


def _packed(
    columns: dict[str, Ints], bounds: Sequence[int], watermarks: Iterable[int], parts: Iterable[int]
) -> list[dict[str, Any]]:
    whole = {name: column.tobytes() for name, column in columns.items()}
    cuts = [slice(8 * first, 8 * last) for first, last in pairwise(bounds)]
    return [
        {**{name: column[cut] for name, column in whole.items()}, _WATERMARK: watermark, _PART: part}
        for cut, watermark, part in zip(cuts, watermarks, parts, strict=True)
    ]


def _numbers(column: Any) -> Ints:
    """Return a binary column's bytes as numbers, without a copy."""
    data, offsets = column.buffers()[2], _offsets(column)
    if data is None:
        return np.zeros(0, np.int64)
    whole: Ints = np.frombuffer(data, np.int64, count=offsets[-1] // 8)
    return whole[offsets[0] // 8 :]


def _offsets(column: Any) -> NDArray[np.int32]:
    offsets: NDArray[np.int32] = np.frombuffer(column.buffers()[1], np.int32)
    return offsets[column.offset : column.offset + len(column) + 1]
