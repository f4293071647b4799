"""What a task made of the states of keys, side by side: dicts by partition would be the larger part of the work, with
some eight keys in each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runtime.dispatch.events import KeyStates, Payload


class Changed(Mapping[int, KeyStates]):
    """The new states of one stage. By partition for those who ask, which few do."""

    __slots__ = ("_by_partition", "partitions", "states", "touched")

    def __init__(self, touched: Sequence[Any], partitions: bytes, states: Sequence[Payload | None]) -> None:
        """``touched``: keys, each once; ``partitions`` has the byte and ``states`` the state of each, in this order."""
        self.touched, self.partitions, self.states = touched, partitions, states
        self._by_partition: dict[int, dict[Any, Payload | None]] | None = None

    @classmethod
    def of(cls, changes: Mapping[int, KeyStates]) -> Changed:
        """The same of states by partition."""
        if isinstance(changes, cls):
            return changes
        touched = [key for states in changes.values() for key in states]
        partitions = [partition for partition, states in changes.items() for _ in states]
        return cls(touched, bytes(partitions), [each for states in changes.values() for each in states.values()])

    def by_key(self) -> dict[Any, Payload | None]:
        return dict(zip(self.touched, self.states, strict=True))

    def partition_of_each(self) -> dict[Any, int]:
        return dict(zip(self.touched, self.partitions, strict=True))

    def __getitem__(self, partition: int) -> KeyStates:
        if self._by_partition is None:
            made: dict[int, dict[Any, Payload | None]] = {each: {} for each in self}
            for key, each, state in zip(self.touched, self.partitions, self.states, strict=True):
                made[each][key] = state
            self._by_partition = made
        return self._by_partition[partition]

    def __iter__(self) -> Iterator[int]:
        return iter(dict.fromkeys(self.partitions))

    def __len__(self) -> int:
        return len(set(self.partitions))

    def __contains__(self, partition: object) -> bool:
        return partition in set(self.partitions)
