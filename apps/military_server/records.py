"""The records of a bundle: bytes between workers, one array inside a stage, and on a GPU from one stage to the next.

A stage that computes on a GPU returns rows instead of bytes. While the next stage is in the same group it gets these
rows, and with them the fields on the device. A row that leaves the worker becomes bytes as it is pickled.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from apps.military_server.terrain import Ints, Records

Field = Any
"""An array of NumPy, or an array on a GPU."""


class Bundle:
    """Records with some fields possibly on a GPU; the other fields are those of ``source``."""

    def __init__(self, layout: np.dtype[np.void], source: "Records | Bundle", fields: Mapping[str, Field]) -> None:
        self._layout, self._source, self._fields = layout, source, fields

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, name: str) -> Field:
        return self._fields[name] if name in self._fields else self._source[name]

    @cached_property
    def parts(self) -> list[bytes]:
        """Return each record separately, copied from the device once for all of them."""
        return parted(filled(self._layout, self))


class Row:
    """One record of a bundle."""

    __slots__ = ("at", "bundle")

    def __init__(self, bundle: Bundle, at: int) -> None:
        self.bundle, self.at = bundle, at

    def __reduce__(self) -> tuple[Any, ...]:
        return bytes, (self.bundle.parts[self.at],)


def taken(values: Sequence[bytes | Row], layout: np.dtype[np.void]) -> Records | Bundle:
    """Return the records that a stage receives. Raises: ValueError if one has another length."""
    first = values[0]
    if isinstance(first, Row) and [getattr(each, "at", -1) for each in values] == list(range(len(first.bundle))):
        return first.bundle
    return joined([each.bundle.parts[each.at] if isinstance(each, Row) else each for each in values], layout)


def given(layout: np.dtype[np.void], source: Records | Bundle, **fields: Field) -> list[bytes | Row]:
    """Return the records with ``fields``, each separately; other fields of ``layout`` come from ``source``."""
    if isinstance(source, Bundle) or any(map(on_device, fields.values())):
        bundle = Bundle(layout, source, fields)
        return [Row(bundle, at) for at in range(len(bundle))]
    return list(parted(filled(layout, source, **fields)))


def on_device(field: Field) -> bool:
    """Return whether it is an array on a GPU."""
    return hasattr(field, "copy_to_host")


def on_host(field: Field) -> Any:
    """Return the array, copied from the GPU if it is there."""
    return field.copy_to_host() if on_device(field) else field


def ints(field: Field) -> Ints:
    """Return a field in the kernels' form: 32 bits, without gaps between the records. GPU fields have it already."""
    return field if on_device(field) else np.ascontiguousarray(field, np.int32)


def joined(values: Sequence[bytes], layout: np.dtype[np.void]) -> Records:
    """Return the records of a bundle as one array. Raises: ValueError if a record has another length."""
    if set(map(len, values)) != {layout.itemsize}:
        wrong = next((len(value) for value in values if len(value) != layout.itemsize), 0)
        raise ValueError(f"a record has {wrong} bytes; must be {layout.itemsize}")
    return np.frombuffer(b"".join(values), layout)


def parted(records: Records) -> list[bytes]:
    """Return each record separately."""
    data, size = records.tobytes(), records.itemsize
    return [data[start : start + size] for start in range(0, len(data), size)]


def filled(layout: np.dtype[np.void], source: Records | Bundle, **fields: Field) -> Records:
    """Return records with ``fields``; other fields of ``layout`` come from ``source``."""
    records = np.empty(len(source), layout)
    for name in layout.names or ():
        records[name] = on_host(fields[name] if name in fields else source[name])
    return records
