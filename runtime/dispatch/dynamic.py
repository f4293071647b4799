"""Workers of a dynamic composition, which go from group to group; the scheduler chooses the next group."""

from collections.abc import Sequence

from compositions.dynamic import Dyn
from runtime.scheduling import make_scheduler
from runtime.scheduling.port import Book, Queue, Visit


class Roaming:
    """The measurements of the groups, and the scheduler that uses them. Work is counted in values, the tuples of the
    paper: a bundle without values needs no worker."""

    def __init__(self, dyn: Dyn, groups: int) -> None:
        self._settings = dyn.settings
        self._scheduler = make_scheduler(dyn.scheduler, self._settings)
        self._otherwise = make_scheduler("lp", self._settings)
        self._book = Book(groups, self._settings)

    @property
    def slice_s(self) -> float:
        """Time for which a worker stays at a group while there is work."""
        return self._settings.slice_s

    def note(self, group: int, visit: Visit) -> None:
        """Record a finished task of the group."""
        self._book.note(group, visit)

    def choose(self, now_s: float, queues: Sequence[Queue]) -> int | None:
        """Return the group that an idle worker should go to; None: the worker waits.

        If no worker is at work, ``lp`` chooses where the scheduler would let all wait. Otherwise the app could hang: a
        stateful stage with a long queue may wait for an earlier item, while ``qst`` and ``kanban`` run nothing before a
        group whose queue is long.
        """
        looks = self._book.looks(now_s, queues)
        found = self._scheduler.choose(looks)
        if found is not None or any(look.workers for look in looks):
            return found
        return self._otherwise.choose(looks)
