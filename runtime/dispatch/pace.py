"""How long the tasks of a group take, as far as they have told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Pace:
    busy_s: float | None = None
    """Moving average of the time a task takes, gain 1/8; None: there was none yet."""
    task_items: int = 1
    """Of the latest task."""

    def note(self, busy_s: float, items: int) -> None:
        """A task of so many items took so long."""
        self.task_items = items
        self.busy_s = busy_s if self.busy_s is None else self.busy_s + (busy_s - self.busy_s) / 8
