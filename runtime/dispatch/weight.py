"""How much there is of what was started and has not left, in bytes: a hung item holds the stream back, and the memory
that those behind it take has an end."""

from __future__ import annotations

from runtime.dispatch.bundle import Bundle


class Weight:
    """``used`` bytes of payloads now. What items come to on their way is learned from those that went it: a photo in a
    file of 100 KB is an array of 6 MB a stage later, and then it is too late to hold it back."""

    __slots__ = ("each_bytes", "items", "used")

    def __init__(self) -> None:
        self.used = self.items = 0
        self.each_bytes = 0.0
        """The most that an item weighs between its start and its end: a moving mean with gain 1/8."""

    def has_room(self, budget_bytes: int) -> bool:
        """Whether another bundle may start."""
        return self.items == 0 or max(self.used, (self.items + 1) * self.each_bytes) < budget_bytes

    def add(self, bundle: Bundle) -> None:
        bundle.peak_bytes = bundle.size_bytes
        self.items += bundle.count
        self.used += bundle.size_bytes

    def resize(self, bundle: Bundle, size_bytes: int) -> None:
        """A stage made something of it."""
        self.used += size_bytes - bundle.size_bytes
        bundle.size_bytes = size_bytes
        if size_bytes > bundle.peak_bytes:
            bundle.peak_bytes = size_bytes

    def remove(self, bundle: Bundle) -> None:
        self.items -= bundle.count
        self.used -= bundle.size_bytes
        self.each_bytes += (bundle.peak_bytes / bundle.count - self.each_bytes) / 8
