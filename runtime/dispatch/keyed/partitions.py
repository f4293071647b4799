"""The partitions of a partitioned stage: the worker that owns each, the worker that has its state, the copies of states
retained here, and the bundles at the stage.

Prasaad et al., section 4, require that a partition is never at two workers at once and gets its values in order. In
their hybrid queue any worker draws the next key, as all workers share one memory. Here states lie in worker processes
and are costly to move, so each partition has an owner, and partitions change owners if the load is uneven
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
"""Values per partition between two checks of the balance: with 64 partitions and even keys, halves differ by 2 %."""
UNEVEN = 1.2
"""Ratio of the largest load of a worker to the mean above which partitions move. Moving costs pickling and unpickling,
so a smaller imbalance is left alone."""
GAIN = 0.1
"""Minimum reduction of the largest load by the moves, as a fraction of the mean."""


class Loads:
    """The load of a stage's partitions in values, all of equal cost; earlier values count half after each check."""

    def __init__(self, count: int) -> None:
        self.values = [0] * count
        self.counted = 0
        """Number of values since the last check."""

    def note(self, partitions: bytes) -> None:
        """Count values, given the partition of each."""
        for each, count in Counter(partitions).items():
            self.values[each] += count
        self.counted += len(partitions)

    @property
    def due(self) -> bool:
        return self.counted >= COUNTED * len(self.values)

    def look(self) -> list[int]:
        """Return the loads, and halve them for the next check."""
        loads, self.counted = self.values, 0
        self.values = [each // 2 for each in loads]
        return loads


def moves(owned: Mapping[WorkerId, Sequence[int]], loads: Sequence[int]) -> dict[int, WorkerId]:
    """Return the new owner of each partition that should move; empty if the load is even or moves would not help.

    The partition with a load nearest to half the difference moves from the worker with the most load to the one with
    the least, until the largest load is near the mean.
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
"""Minimum number of steps in which all partitions with states move to other owners. A bundle waits only for the moves
of one step, and the next step waits only for partitions that the newest bundle has values of."""
AT_ONCE = 16
"""A task carries the states of at most 1/16 of all partitions, which limits the size of messages."""


class Partitions:
    """The partitions of one stage. An *owner* runs a partition's values from now on; a *holder* has its state. A
    partition in work stays with its worker until the task is over; then its new owner gets the retained state. No other
    partition waits meanwhile. Masks of partitions are integers of 256 bytes, with byte 1 for each partition in them."""

    def __init__(self, count: int, begin: Mapping[int, KeyStates] = _NONE) -> None:
        """``begin``: the initial key states, by partition."""
        self.count = count
        self.owners: list[WorkerId | None] = [None] * count
        self.owned: dict[WorkerId, int] = {}
        """The mask of the partitions that each worker owns."""
        self.sharers: tuple[WorkerId, ...] = ()
        """The workers that should own all partitions; other workers own those that have not moved yet."""
        self.holders: list[WorkerId | None] = [None] * count
        self.stale: dict[WorkerId, set[int]] = {}
        """Partitions of which a worker has outdated states, because another worker holds them now."""
        self.kept = StatesByKey(count)
        """The state of each key as a worker pickled it, to restore partitions from. Never unpickled here."""
        self.known: set[int] = set()
        """Partitions that have or had states, and are therefore costly to move."""
        self.moving: dict[int, WorkerId] = {}
        """The new owners of partitions that have not moved yet."""
        self.under_way: set[int] = set()
        """Partitions whose new owner lacks their states so far, if the newest bundle has values of them. Others are
        left out: a key that never comes again would hold up all further moves."""
        self.loads = Loads(count)
        self.in_work: dict[WorkerId, list[int]] = {}
        """For each piece at a worker, the mask of the partitions that it may change; no two workers share one."""
        self.commit(begin)
        self.entered: list[Assembly] = []
        """The bundles at the stage, in the order of their turns."""
        self.group: GroupState | None = None
        """The group whose bundles are at the stage; bundles of another composition wait until these are done."""

    def mine(self, worker: WorkerId) -> int:
        """Return the mask of the partitions that ``worker`` owns and that are not in work at another worker."""
        mine = self.owned.get(worker, 0)
        for other, pieces in self.in_work.items():
            if other != worker:
                for each in pieces:
                    mine &= ~each
        return mine

    def begin(self, worker: WorkerId, piece: Piece) -> dict[int, KeyStates]:
        """Record that a piece goes to ``worker``, which keeps its partitions until ``end``. Return as ``lend`` does."""
        self.in_work.setdefault(worker, []).append(marked(piece.partitions))
        return self.lend(worker, piece.partitions)

    def end(self, piece: Piece) -> None:
        mark = marked(piece.partitions)
        worker = next(worker for worker, pieces in self.in_work.items() if mark in pieces)
        self.in_work[worker].remove(mark)
        if not self.in_work[worker]:
            del self.in_work[worker]

    def lend(self, worker: WorkerId, partitions: Sequence[int]) -> dict[int, KeyStates]:
        """Let a task of ``worker`` change ``partitions``. Return the states of those that the worker does not hold, and
        an empty state for each outdated partition, so that the worker frees its memory."""
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
        """Store the states that a successful task produced."""
        self.known.update(changes)
        made = Changed.of(changes)
        self.kept.put(made.by_key(), made.partition_of_each)

    def enter(self, assembly: Assembly, group: GroupState) -> None:
        """Let a bundle enter the stage in its turn."""
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
        """Return the values that ``worker`` may run now, from the oldest bundle that has some; None if no bundle has.
        Each partition so gets its values in order."""
        mine = self.mine(worker)
        if self.group is not None and self.group.tested and is_last(self.group):
            for each in self.entered:
                if each.deaths > 1:
                    mine &= ~each.deadly
        first = next((each for each in self.entered if each.wanted & mine), None)
        return None if first is None else first.take(self._bearable(worker, first.wanted & mine))

    def _bearable(self, worker: WorkerId, mine: int) -> int:
        """Return the mask ``mine`` without partitions whose states would exceed the limit of one task (``AT_ONCE``)."""
        wanted = compress(range(256), mine.to_bytes(256))
        missing = [each for each in wanted if each in self.known and self.holders[each] != worker]
        return mine & ~marked(missing[-(-self.count // AT_ONCE) :])

    def piece(self, bundle: Bundle, picked: bytes) -> Piece:
        """Return the piece of ``bundle`` that was sent with the values ``picked``."""
        return next(each for each in self.entered if each.bundle is bundle).piece(picked)

    @property
    def waits(self) -> bool:
        """True if there are values that have not been sent to a worker."""
        return any(1 in each.todo for each in self.entered)

    def lose(self, worker: WorkerId) -> None:
        self.stale.pop(worker, None)
        self.holders = [None if each == worker else each for each in self.holders]

    def needs(self, worker: WorkerId) -> bool:
        """Return whether the worker owns partitions with states."""
        return any(self.owners[each] == worker for each in self.known)

    def share(self, workers: Sequence[WorkerId], leaving: Sequence[WorkerId] = ()) -> None:
        """Divide all partitions evenly among ``workers``, moving as few partitions with states as possible. If the same
        workers own them already, move partitions only to even out the load. A partition with states stays with its
        worker (one of ``workers`` or ``leaving``) until it is its turn to move."""
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
        """Return an equal number of partitions for each worker: first those that it holds, or owns if no worker holds
        them, up to its share; then some of the rest."""
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
        while homeless:  # in turns, so that adjacent partitions do not all go to one worker
            for mine in owned.values():
                if homeless and len(mine) < fair + (more > 0):
                    more -= len(mine) == fair
                    mine.append(homeless.pop())
        return owned

    def _give(self, partition: int, worker: WorkerId, present: Container[WorkerId]) -> None:
        """Give a partition to a worker: at once if the move is free or the present owner is gone, otherwise later."""
        owner = self.owners[partition]
        if owner is None or partition not in self.known or owner not in present or owner != self.holders[partition]:
            self.owners[partition] = worker
        elif worker != owner:
            self.moving[partition] = worker

    def _level(self, loads: Sequence[int]) -> None:
        """Even out the load: workers with too much load pass partitions to others."""
        owned = {worker: [each for each, owner in enumerate(self.owners) if owner == worker] for worker in self.sharers}
        for each, worker in moves(owned, loads).items():
            self._give(each, worker, owned)
        self._own(list(owned))

    def _move(self) -> None:
        """Start the next step of moves, as far as moves of earlier steps are finished."""
        self.under_way = {each for each in self.under_way if self.holders[each] != self.owners[each]}
        now = list(self.moving)[: max(0, -(-self.count // STEPS) - len(self.under_way))]
        for each in now:
            self.owners[each] = self.moving.pop(each)
        self.under_way.update(now)
        if now:
            self._own(list(self.owned))

    def _own(self, workers: Iterable[WorkerId]) -> None:
        """Update ``owned`` for ``workers``, without leaving workers that own no partition any more."""
        marks = {
            worker: marked(each for each, owner in enumerate(self.owners) if owner == worker) for worker in workers
        }
        self.owned = {worker: mine for worker, mine in marks.items() if mine or worker in self.sharers}
