"""Workers of a dynamic composition, which go from group to group; the scheduler chooses the next group."""

from collections.abc import Sequence

from compositions.dynamic import Dyn
from runtime.scheduling import make_scheduler
from runtime.scheduling.port import Book, Queue, Visit


class Roaming:
    """The measurements of the groups, and the scheduler that uses them. It counts values, the tuples of the paper: a
    bundle whose items have none left waits for nobody."""

    def __init__(self, dyn: Dyn, groups: int) -> None:
        self._settings = dyn.settings
        self._scheduler = make_scheduler(dyn.scheduler, self._settings)
        self._otherwise = make_scheduler("lp", self._settings)
        self._book = Book(groups, self._settings)

    @property
    def slice_s(self) -> float:
        """A worker stays at a group for so long, if there is work."""
        return self._settings.slice_s

    def note(self, group: int, visit: Visit) -> None:
        """Record a task of the group."""
        self._book.note(group, visit)

    def choose(self, now_s: float, queues: Sequence[Queue]) -> int | None:
        """The group that an idle worker is to go to; None: it is to wait.

        While nobody works a scheduler may not make all wait: a stage that keeps the order may have much in its list and
        need what is before it, of which ``qst`` and ``kanban`` would say that it has enough behind it.
        """
        looks = self._book.looks(now_s, queues)
        found = self._scheduler.choose(looks)
        if found is not None or any(look.workers for look in looks):
            return found
        return self._otherwise.choose(looks)
