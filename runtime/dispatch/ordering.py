"""Order: results leave by serial number, and so do items through a stateful stage (Prasaad et al., section 3)."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class ReorderBuffer(Generic[T]):
    """Holds finished results until every earlier one is there. Whoever puts the missing one gets all that is ready.

    A result may stand for several serial numbers in a row.
    """

    def __init__(self, next_serial: int = 0) -> None:
        self.next_serial = next_serial
        self.waiting: dict[int, tuple[T, int]] = {}
        """By the first serial number, with how many there are."""

    def __len__(self) -> int:
        return len(self.waiting)

    def put(self, serial: int, result: T, count: int = 1) -> list[T]:
        """Adds the result of ``count`` serial numbers from ``serial`` on; returns those that may leave now, in order.

        Raises: ValueError when the serial number left already or waits already, which would be a doubled delivery.
        """
        if serial < self.next_serial or serial in self.waiting:
            raise ValueError(f"serial {serial} was delivered before; next is {self.next_serial}")
        if serial == self.next_serial and not self.waiting:
            self.next_serial += count
            return [result]
        self.waiting[serial] = result, count
        ready = []
        while (head := self.waiting.pop(self.next_serial, None)) is not None:
            ready.append(head[0])
            self.next_serial += head[1]
        return ready


class OrderGate:
    """Lets the items of one stateful stage pass in serial order; items that end earlier are told to it as well."""

    def __init__(self, expected: int = 0) -> None:
        self.expected = expected
        self._passed: dict[int, int] = {}
        """Those that passed ahead of their turn: the first of a row, and how many."""

    def opens_for(self, serial: int) -> bool:
        return serial == self.expected

    def passed(self, serial: int, count: int = 1) -> None:
        """The stage has seen ``count`` items from ``serial`` on, or never will. Said twice, it counts once."""
        if serial >= self.expected:
            self._passed[serial] = count
        while (count := self._passed.pop(self.expected, 0)) > 0:
            self.expected += count
