"""A bundle: items that travel together. It is in the admission queue, a group's queue, a task or the outbox."""

from __future__ import annotations

from dataclasses import dataclass, replace

from runtime.dispatch.keys import Payload, Routes


@dataclass(frozen=True, slots=True)
class Trouble:
    """The losses and failures that a bundle has caused at its present stage."""

    attempts: int = 0
    """For a single item: how often a stage raised on it."""
    losses: int = 0
    """For a single item: the number of workers that died while they ran only this item."""
    lost_as: int = 0
    """Number, among the run's worker losses, of the last one that died with the bundle."""
    deaths: int = 0
    """Number of workers that died while they ran the bundle, alone or with others. If above 0, the bundle is a
    *suspect*: it runs by itself, in a worker that its group can do without."""
    node: str = ""
    """The machine of the last worker that died with the bundle."""
    refused: str | None = None
    """Reason why no worker may get the bundle; None if workers may."""

    def after_loss(self, number: int, heard: int, node: str = "") -> Trouble:
        """Return the trouble of one item after its worker on ``node`` was lost, the run's ``number``-th loss. The
        worker was last known to be alive after the ``heard``-th loss.

        If a machine dies, its workers are noticed as dead one after the other, and a retried item may go from one dead
        worker to the next. So another loss counts only if its worker was known to be alive after the previous one.
        """
        if self.losses and heard < self.lost_as:
            return self
        return replace(self, losses=self.losses + 1, lost_as=number, deaths=self.deaths + 1, node=node)

    def after_death(self, number: int, node: str) -> Trouble:
        """Return the trouble after a death while several items ran, any of which may be the cause."""
        return replace(self, lost_as=number, deaths=self.deaths + 1, node=node)

    def acquitted(self) -> Trouble:
        """Return the trouble without the last death, which the machine caused."""
        return replace(self, losses=max(0, self.losses - 1), deaths=self.deaths - 1, node="")


NO_TROUBLE = Trouble()


@dataclass(slots=True, eq=False)
class Bundle:
    """One or more consecutive admitted items that travel together. ``next_stage`` indexes the app's stages. The items
    lie in the payload from ``start`` on and are inputs of that stage. If items of a bundle fare differently (success,
    failure), the bundle is split."""

    serial: int
    """Serial number of the first item; the others follow."""
    arrived_s: tuple[float, ...]
    """Arrival time of each item."""
    payload: Payload
    started_s: float | None = None
    turn: int = -1
    """Place of the first item in the order of starting, which is the order of delivery; -1 before the start."""
    next_stage: int = 0
    trouble: Trouble = NO_TROUBLE
    composition: str = ""
    """Name of the composition that the bundle was started in or moved to; a resize may have renamed it since."""
    size_bytes: int = 0
    due_s: tuple[float, ...] | None = None
    start: int = 0
    peak_bytes: int = 0
    """Maximum size since the start."""
    routes: Routes | None = None
    """The partition of each value, if the next stage is partitioned."""
    made: int | None = None
    """Number of values of all items together; None: one each. Estimated for a part, but 0 only if really 0."""

    @property
    def count(self) -> int:
        return len(self.arrived_s)

    @property
    def error(self) -> str | None:
        """Reason why no worker may get the bundle; None if workers may."""
        return self.trouble.refused

    @property
    def values(self) -> int:
        """Number of values that the next stage receives."""
        return len(self.arrived_s) if self.made is None else self.made

    def advance(
        self, next_stage: int, payload: Payload, made: int | None, start: int = 0, routes: Routes | None = None
    ) -> None:
        """Record a successful task: the next stage gets ``made`` values, in ``payload`` from ``start`` on."""
        self.next_stage, self.payload, self.start, self.routes, self.made = next_stage, payload, start, routes, made
        self.trouble = NO_TROUBLE

    def part(self, begin: int, end: int) -> Bundle:
        """Return the items from position ``begin`` to before ``end`` as a new bundle; the old one is then discarded."""
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
        """Split the bundle, which has at least two items, in the middle."""
        middle = self.count // 2
        return self.part(0, middle), self.part(middle, self.count)


def values_of_part(made: int | None, items: int, count: int) -> int | None:
    """Estimate how many of the ``made`` values of ``count`` items belong to ``items`` of them: 0 only if all are 0."""
    return made and max(1, made * items // count)


def _share(size_bytes: int, begin: int, end: int, count: int) -> int:
    """Return the size of items ``begin`` to before ``end``; the sizes of all parts add up to the whole."""
    return size_bytes * end // count - size_bytes * begin // count
