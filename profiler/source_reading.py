"""What was read of the source: how many items, and for how long there was no room for more."""

from __future__ import annotations


class SourceReading:
    """Since the start. Times in seconds of one clock that does not run backwards."""

    def __init__(self) -> None:
        self.items = 0
        self._held_back_s = 0.0
        self._since_s: float | None = None
        """When there began to be no room; None while there is some."""

    def held_back(self, at_s: float, *, held: bool) -> None:
        """Whether there is no room from now on."""
        if self._since_s is not None:
            self._held_back_s += at_s - self._since_s
        self._since_s = at_s if held else None

    def held_back_s(self, now_s: float) -> float:
        """For how long there was none."""
        return self._held_back_s + (0.0 if self._since_s is None else now_s - self._since_s)
