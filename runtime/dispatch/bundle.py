"""A bundle: the unit that travels. Whatever holds it knows its place: a queue, a group's work list, a task, the
outbox."""

from __future__ import annotations

from dataclasses import dataclass, replace

from runtime.dispatch.keys import Payload, Routes


@dataclass(frozen=True, slots=True)
class Trouble:
    """The losses and failures that a bundle has caused at its present stage."""

    attempts: int = 0
    """Of one item: how often a stage raised on it."""
    losses: int = 0
    """Of one item: workers that died with it alone."""
    lost_as: int = 0
    """Which one of the run's lost workers was the last that died with it."""
    deaths: int = 0
    """Number of workers that died while they ran it, alone or with others. If there were some, it is a *suspect*: it
    runs by itself, in a worker that its group can do without."""
    node: str = ""
    """The machine of the last of these."""
    refused: str | None = None
    """Reason why no worker may get it."""

    def after_loss(self, number: int, heard: int, node: str = "") -> Trouble:
        """Return the trouble of one item after its worker on ``node`` was lost, the run's ``number``-th loss; it was
        known to live after the ``heard``-th.

        A machine that dies takes all its workers, and is noticed one worker after the other: an item goes from the dead
        to the dead. So what it had cost before counts on only where its worker was heard of since.
        """
        if self.losses and heard < self.lost_as:
            return self
        return replace(self, losses=self.losses + 1, lost_as=number, deaths=self.deaths + 1, node=node)

    def after_death(self, number: int, node: str) -> Trouble:
        """Count a death for several items, or for an item that ran with others: the cause is not known yet."""
        return replace(self, lost_as=number, deaths=self.deaths + 1, node=node)

    def acquitted(self) -> Trouble:
        """Return the trouble without the last death, which was that of the machine."""
        return replace(self, losses=max(0, self.losses - 1), deaths=self.deaths - 1, node="")


NO_TROUBLE = Trouble()


@dataclass(slots=True, eq=False)
class Bundle:
    """Admitted items in a row that travel together, one at least. ``next_stage`` indexes the app's stages; the items
    are those of the payload from ``start`` on, inputs of that stage. What happens to one of them is that one's own:
    a bundle is taken apart where the fates of its items part."""

    serial: int
    """Of the first; the others follow."""
    arrived_s: tuple[float, ...]
    """One a item."""
    payload: Payload
    started_s: float | None = None
    turn: int = -1
    """The first one's place among the items that were started; order is kept by it."""
    next_stage: int = 0
    trouble: Trouble = NO_TROUBLE
    composition: str = ""
    """Name of the one that it was started in, or moved to; the pipeline that it is in may have another by now."""
    size_bytes: int = 0
    due_s: tuple[float, ...] | None = None
    start: int = 0
    peak_bytes: int = 0
    """The most that it weighed since it was started."""
    routes: Routes | None = None
    """Where its values go, if the next stage is partitioned."""
    made: int | None = None
    """Number of values of all items together; None: one each. Of a part it is a guess, but 0 only if it is 0."""

    @property
    def count(self) -> int:
        return len(self.arrived_s)

    @property
    def error(self) -> str | None:
        """Return why no worker may get it; None: one may."""
        return self.trouble.refused

    @property
    def values(self) -> int:
        """Return the number of values that its next stage gets."""
        return len(self.arrived_s) if self.made is None else self.made

    def advance(
        self, next_stage: int, payload: Payload, made: int | None, start: int = 0, routes: Routes | None = None
    ) -> None:
        """A task of it succeeded: ``payload`` from ``start`` on, of ``made`` values, is what the next stage gets."""
        self.next_stage, self.payload, self.start, self.routes, self.made = next_stage, payload, start, routes, made
        self.trouble = NO_TROUBLE

    def part(self, begin: int, end: int) -> Bundle:
        """Its items from position ``begin`` to before ``end``, as a bundle of their own; this one is given up."""
        return replace(
            self,
            serial=self.serial + begin,
            arrived_s=self.arrived_s[begin:end],
            turn=self.turn + begin if self.turn >= 0 else -1,
            size_bytes=_share(self.size_bytes, begin, end, self.count),
            peak_bytes=_share(self.peak_bytes, begin, end, self.count),
            due_s=None if self.due_s is None else self.due_s[begin:end],
            start=self.start + begin,
            routes=None if self.routes is None else self.routes.part(begin, end),
            made=values_of_part(self.made, end - begin, self.count),
        )

    def halves(self) -> tuple[Bundle, Bundle]:
        """It has two items at least."""
        middle = self.count // 2
        return self.part(0, middle), self.part(middle, self.count)


def values_of_part(made: int | None, items: int, count: int) -> int | None:
    """Guess how many of ``made`` values of ``count`` items belong to ``items`` of these: none only if ``made`` is 0."""
    return made and max(1, made * items // count)


def _share(size_bytes: int, begin: int, end: int, count: int) -> int:
    """Return the part with items ``begin`` to before ``end``; the shares of all parts add up to the whole."""
    return size_bytes * end // count - size_bytes * begin // count
