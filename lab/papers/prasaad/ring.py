"""The reorder ring of Prasaad et al., figure 4: a bounded circular buffer with a ``next`` counter.

Which of several workers may send what is ready, and who waits for whom meanwhile, is not said here: ``plant.py`` does.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class ReorderRing(Generic[T]):
    """Outputs by serial number, from 1 on. An input without outputs puts an empty one, or all behind it would wait."""

    def __init__(self, slots: int) -> None:
        if slots < 1:
            raise ValueError(f"a ring has at least 1 slot, not {slots}")
        self._slots: list[tuple[T] | None] = [None] * slots
        self.next = 1
        """The serial number that leaves next."""

    @property
    def room_to(self) -> int:
        """The first serial number that has no slot yet."""
        return self.next + len(self._slots)

    @property
    def ready(self) -> bool:
        return self._slots[self.next % len(self._slots)] is not None

    def put(self, serial: int, output: T) -> bool:
        """Whether there was a slot for it: ``next ≤ serial < next + slots``, so that none is overwritten."""
        if not self.next <= serial < self.room_to:
            return False
        self._slots[serial % len(self._slots)] = (output,)
        return True

    def peek(self) -> T:
        """The output of ``next``. Raises: ValueError when it is not there yet."""
        found = self._slots[self.next % len(self._slots)]
        if found is None:
            raise ValueError(f"the output of {self.next} is not there yet")
        return found[0]

    def pop(self) -> T:
        """The same, which leaves. Raises: ValueError when it is not there yet."""
        found = self.peek()
        self._slots[self.next % len(self._slots)] = None
        self.next += 1
        return found
