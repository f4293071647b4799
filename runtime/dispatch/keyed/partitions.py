"""The partitions of a partitioned stage: the worker that owns each, the one that has its state, what is retained here,
and the bundles at the stage.

Prasaad et al., section 4, ask that a partition is never at two workers at once and has its values in order. Theirs is a
hybrid queue, from which any worker draws the next key, for all share one memory. Here states lie in worker processes
and cost something to move, so a partition has an owner, and uneven partitions get another one
(docs/decisions/0032-partitioned-stages.md has the figures).
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import compress

from runtime.dispatch.bundle import Bundle
from runtime.dispatch.events import WorkerId
from runtime.dispatch.keyed.split import Assembly, Piece, marked
from runtime.dispatch.keys import Changed, KeyStates, StatesByKey
from runtime.dispatch.pipeline import GroupState

COUNTED = 64
"""Values for each partition between two looks: with 64 partitions a half of even keys differs by 2 % then."""
UNEVEN = 1.2
"""Where the worker with the most has so many times the mean, partitions are to move: a state that moves is pickled and
read again, so this is not done for less."""
GAIN = 0.1
"""Of the mean: what the worker with the most must be rid of by it."""


class Loads:
    """The load of a stage's partitions in values, all of one cost; older ones count half with each look."""

    def __init__(self, count: int) -> None:
        self.values = [0] * count
        self.counted = 0
        """Since the last look."""

    def note(self, partitions: bytes) -> None:
        """Values that came, by the partition of each."""
        for each, count in Counter(partitions).items():
            self.values[each] += count
        self.counted += len(partitions)

    @property
    def due(self) -> bool:
        return self.counted >= COUNTED * len(self.values)

    def look(self) -> list[int]:
        """The loads as they are, from which the next ones are counted on."""
        loads, self.counted = self.values, 0
        self.values = [each // 2 for each in loads]
        return loads


def moves(owned: Mapping[WorkerId, Sequence[int]], loads: Sequence[int]) -> dict[int, WorkerId]:
    """Return which partitions are to have another owner, and whom: none where it is even, or cannot be made more so.

    From who has most to who has least goes what is nearest to half their difference, until the most is near the mean.
    """
    has = {worker: list(mine) for worker, mine in owned.items()}
    sums = {worker: sum(loads[each] for each in mine) for worker, mine in has.items()}
    mean, most = sum(sums.values()) / len(sums), max(sums.values())
    if most <= UNEVEN * mean:
        return {}
    found: dict[int, WorkerId] = {}
    while True:
        heavy, light = max(sums, key=sums.__getitem__), min(sums, key=sums.__getitem__)
        gap = sums[heavy] - sums[light]
        fit = [each for each in has[heavy] if 0 < loads[each] < gap]
        if not fit or sums[heavy] <= (1 + GAIN) * mean:
            break
        best = min(fit, key=lambda each: abs(gap - 2 * loads[each]))
        has[heavy].remove(best)
        has[light].append(best)
        sums[heavy], sums[light] = sums[heavy] - loads[best], sums[light] + loads[best]
        found[best] = light
    if most - max(sums.values()) < GAIN * mean:
        return {}
    return {each: worker for each, worker in found.items() if each not in owned[worker]}


_NOTHING: KeyStates = {}
_NONE: Mapping[int, KeyStates] = {}
STEPS = 64
"""In so many steps, at least, partitions with states move to another owner while they have one: a bundle waits for
those of one step alone, and the next step waits for those that it has values of."""
AT_ONCE = 16
"""A task brings no more than that part of all partitions with their states: messages have a size that can be borne."""


class Partitions:
    """The partitions of one stage. An *owner* runs the values of a partition from now on; a *holder* has its state.
    One that is in work stays where it is until the task is over; then its next owner gets what is kept. None waits
    meanwhile."""

    def __init__(self, count: int, begin: Mapping[int, KeyStates] = _NONE) -> None:
        """``begin``: the states that there are, by partition."""
        self.count = count
        self.owners: list[WorkerId | None] = [None] * count
        self.owned: dict[WorkerId, int] = {}
        """The same by worker: a byte for each partition, 1 for its own."""
        self.sharers: tuple[WorkerId, ...] = ()
        """Who is to own all; others own what has not moved from them yet."""
        self.holders: list[WorkerId | None] = [None] * count
        self.stale: dict[WorkerId, set[int]] = {}
        """Those that a worker has states of, and are held by another since."""
        self.kept = StatesByKey(count)
        """What brings a partition back: the state of each key as a worker pickled it. Never read here."""
        self.known: set[int] = set()
        """Those of which something is or was kept: they cost something to move."""
        self.moving: dict[int, WorkerId] = {}
        """Those that are to have another owner, and have not yet."""
        self.under_way: set[int] = set()
        """Those of which the next owner has not the states yet, and the newest bundle has values: keys that come no
        more would hold up all others."""
        self.loads = Loads(count)
        self.in_work: dict[WorkerId, list[int]] = {}
        """By worker, for each piece it has: 256 bytes, 1 for those it may change, which no two workers share."""
        self.commit(begin)
        self.entered: list[Assembly] = []
        """In the order of their turns."""
        self.group: GroupState | None = None
        """Whose bundles are at the stage: those of another composition wait until they are through."""

    def mine(self, worker: WorkerId) -> int:
        """256 bytes with 1 for each that ``worker`` owns and that is not in work at another."""
        mine = self.owned.get(worker, 0)
        for other, pieces in self.in_work.items():
            if other != worker:
                for each in pieces:
                    mine &= ~each
        return mine

    def begin(self, worker: WorkerId, piece: Piece) -> dict[int, KeyStates]:
        """A piece goes to ``worker``: as ``lend``, and its partitions stay there until ``end``."""
        self.in_work.setdefault(worker, []).append(marked(piece.partitions))
        return self.lend(worker, piece.partitions)

    def end(self, piece: Piece) -> None:
        mark = marked(piece.partitions)
        worker = next(worker for worker, pieces in self.in_work.items() if mark in pieces)
        self.in_work[worker].remove(mark)
        if not self.in_work[worker]:
            del self.in_work[worker]

    def lend(self, worker: WorkerId, partitions: Sequence[int]) -> dict[int, KeyStates]:
        """A task of ``worker`` may change these; returns what is kept of those whose state it has not, and nothing for
        those that it has no more: their memory is freed."""
        missing: dict[int, KeyStates] = {
            each: self.kept.of(each) for each in partitions if self.holders[each] != worker
        }
        for each in missing:
            if (former := self.holders[each]) is not None:
                self.stale.setdefault(former, set()).add(each)
            self.holders[each] = worker
        moved = {each for each in self.stale.pop(worker, ()) if self.holders[each] != worker}
        return dict.fromkeys(sorted(moved), _NOTHING) | missing

    def commit(self, changes: Mapping[int, KeyStates]) -> None:
        """A task succeeded, and made these."""
        self.known.update(changes)
        made = Changed.of(changes)
        self.kept.put(made.by_key(), made.partition_of_each)

    def enter(self, assembly: Assembly, group: GroupState) -> None:
        """A bundle, in its turn."""
        if len(self.owned) > 1:
            self.loads.note(assembly.routes.partitions)
        if self.under_way:
            self.under_way.intersection_update(assembly.routes.partitions)
        self.entered.append(assembly)
        self.group = group

    def leave(self, assembly: Assembly) -> None:
        self.entered.remove(assembly)
        if self.group is not None and self.group.tested and all(each.deaths <= 1 for each in self.entered):
            self.group.pipeline.tested.remove(self.group)
        if not self.entered:
            self.group = None

    def next_piece(self, worker: WorkerId, is_last: Callable[[GroupState], bool] = lambda _: False) -> Piece | None:
        """Return what ``worker`` may run now: of the oldest bundle that has values for it, so that each partition
        has its values in order."""
        mine = self.mine(worker)
        if self.group is not None and self.group.tested and is_last(self.group):
            for each in self.entered:
                if each.deaths > 1:
                    mine &= ~each.deadly
        first = next((each for each in self.entered if each.wanted & mine), None)
        return None if first is None else first.take(self._bearable(worker, first.wanted & mine))

    def _bearable(self, worker: WorkerId, mine: int) -> int:
        """Return ``mine`` without the partitions whose states would be too many to go with one task."""
        wanted = compress(range(256), mine.to_bytes(256))
        missing = [each for each in wanted if each in self.known and self.holders[each] != worker]
        return mine & ~marked(missing[-(-self.count // AT_ONCE) :])

    def piece(self, bundle: Bundle, picked: bytes) -> Piece:
        """The one of ``bundle`` that was given out with these values."""
        return next(each for each in self.entered if each.bundle is bundle).piece(picked)

    @property
    def waits(self) -> bool:
        """Return whether there are values that no worker has or has had."""
        return any(1 in each.todo for each in self.entered)

    def lose(self, worker: WorkerId) -> None:
        self.stale.pop(worker, None)
        self.holders = [None if each == worker else each for each in self.holders]

    def needs(self, worker: WorkerId) -> bool:
        """Return whether it owns partitions with states."""
        return any(self.owners[each] == worker for each in self.known)

    def share(self, workers: Sequence[WorkerId], leaving: Sequence[WorkerId] = ()) -> None:
        """From now on these own all, evenly by number; only those move that must, and those that have a state stay with
        it. Where the same own them already, those move that make it even by load, where they must. Who has states of
        a partition, and is there or ``leaving``, has it until it is its turn to move."""
        present = dict.fromkeys((*workers, *leaving))
        if set(workers) == set(self.sharers) and self.owned.keys() <= present.keys():
            if self.loads.due and not self.moving:
                self._level(self.loads.look())
            if self.moving:
                self._move()
            return
        self.sharers = tuple(workers)
        self.moving = {}
        for worker, mine in self._evenly(workers).items():
            for each in mine:
                self._give(each, worker, present)
        self._own(present)
        self.under_way = self.known.copy()
        self._move()

    def _evenly(self, workers: Sequence[WorkerId]) -> dict[WorkerId, list[int]]:
        """All partitions, as many for each: those that a worker holds, or owns and nobody holds, as far as that is
        fair, and of the rest some."""
        fair, more = divmod(self.count, len(workers))
        owned: dict[WorkerId, list[int]] = {worker: [] for worker in workers}
        homeless = []
        for each, holder in enumerate(self.holders):
            owner = self.owners[each] if holder is None else holder
            mine = owned.get(owner) if owner is not None else None
            if mine is not None and len(mine) < fair + (more > 0):
                more -= len(mine) == fair
                mine.append(each)
            else:
                homeless.append(each)
        while homeless:  # in turns, so that neighbours do not all go to one
            for mine in owned.values():
                if homeless and len(mine) < fair + (more > 0):
                    more -= len(mine) == fair
                    mine.append(homeless.pop())
        return owned

    def _give(self, partition: int, worker: WorkerId, present: Container[WorkerId]) -> None:
        """The worker is to own it: at once, if it costs nothing or the present owner is none of those ``present``."""
        owner = self.owners[partition]
        if owner is None or partition not in self.known or owner not in present or owner != self.holders[partition]:
            self.owners[partition] = worker
        elif worker != owner:
            self.moving[partition] = worker

    def _level(self, loads: Sequence[int]) -> None:
        """Keys are skewed: who has too much of the work gives partitions away."""
        owned = {worker: [each for each, owner in enumerate(self.owners) if owner == worker] for worker in self.sharers}
        for each, worker in moves(owned, loads).items():
            self._give(each, worker, owned)
        self._own(list(owned))

    def _move(self) -> None:
        """The next of those that are to move do, once those before are where they belong."""
        self.under_way = {each for each in self.under_way if self.holders[each] != self.owners[each]}
        now = list(self.moving)[: max(0, -(-self.count // STEPS) - len(self.under_way))]
        for each in now:
            self.owners[each] = self.moving.pop(each)
        self.under_way.update(now)
        if now:
            self._own(list(self.owned))

    def _own(self, workers: Iterable[WorkerId]) -> None:
        """``workers``: all that may own some; those that leave and own none any more are told of no longer."""
        marks = {
            worker: marked(each for each, owner in enumerate(self.owners) if owner == worker) for worker in workers
        }
        self.owned = {worker: mine for worker, mine in marks.items() if mine or worker in self.sharers}
