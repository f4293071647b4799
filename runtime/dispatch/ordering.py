"""Order: results leave by serial number, and so do items through a stateful stage (Prasaad et al., section 3)."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class ReorderBuffer(Generic[T]):
    """Holds finished results until every earlier one is there. Whoever puts the missing one gets all that is ready."""

    def __init__(self) -> None:
        self.next_serial = 0
        self.waiting: dict[int, T] = {}

    def __len__(self) -> int:
        return len(self.waiting)

    def put(self, serial: int, result: T) -> list[T]:
        """Adds a result; returns those that may leave now, in order.

        Raises: ValueError when the serial number left already or waits already, which would be a doubled delivery.
        """
        if serial < self.next_serial or serial in self.waiting:
            raise ValueError(f"serial {serial} was delivered before; next is {self.next_serial}")
        self.waiting[serial] = result
        ready = []
        while (head := self.waiting.pop(self.next_serial, None)) is not None:
            ready.append(head)
            self.next_serial += 1
        return ready


class OrderGate:
    """Lets the items of one stateful stage pass in serial order; items that end earlier are told to it as well."""

    def __init__(self) -> None:
        self.expected = 0
        self._passed: set[int] = set()

    def opens_for(self, serial: int) -> bool:
        return serial == self.expected

    def passed(self, serial: int) -> None:
        """The stage has seen the item, or never will. Said twice, it counts once."""
        if serial >= self.expected:
            self._passed.add(serial)
        while self.expected in self._passed:
            self._passed.remove(self.expected)
            self.expected += 1
