"""The partitions of a partitioned stage: which worker owns each, which has its state, what is kept of it here, and the
bundles that are at the stage.

Prasaad et al., section 4 (hybrid): a partition is never at two workers at once, its values in order, and nobody waits
for another's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runtime.dispatch.assembly import Assembly, Piece, marked
from runtime.dispatch.events import Change, Payload, WorkerId
from runtime.dispatch.pipeline import Bundle, GroupState
from runtime.dispatch.skew import Loads, moves

LEAST_BYTES = 65_536
"""Changes below this are kept as they are: a snapshot would cost more than it saves."""
MOST_CHANGES = 500


class Kept:
    """What brings a partition back: a snapshot, and the changes since, as the worker wrote them. Never read here."""

    __slots__ = ("blobs", "changes_bytes", "snapshot_bytes")

    def __init__(self) -> None:
        self.blobs: list[Payload] = []
        self.snapshot_bytes = self.changes_bytes = 0

    @property
    def outgrown(self) -> bool:
        """The changes take half as much as the snapshot: the owner is to make a new one. So they never take more than
        that, and a snapshot is written for every two times its size that changes took."""
        return self.changes_bytes > max(LEAST_BYTES, self.snapshot_bytes // 2) or len(self.blobs) > MOST_CHANGES

    def commit(self, change: Change) -> None:
        size_bytes = len(change.blob)
        if change.whole:
            self.blobs, self.snapshot_bytes, self.changes_bytes = [change.blob], size_bytes, 0
        else:
            self.blobs.append(change.blob)
            self.changes_bytes += size_bytes


class Partitions:
    """Of one stage. An *owner* runs the values of a partition from now on; a *holder* has its state. A partition that
    is in work stays where it is until the task is over; then its next owner gets what is kept. None waits meanwhile."""

    __slots__ = ("count", "entered", "group", "holders", "in_work", "kept", "loads", "owned", "owners", "stale")

    def __init__(self, count: int) -> None:
        self.count = count
        self.owners: list[WorkerId | None] = [None] * count
        self.owned: dict[WorkerId, int] = {}
        """The same by worker: a byte for each partition, 1 for its own."""
        self.holders: list[WorkerId | None] = [None] * count
        self.stale: dict[WorkerId, set[int]] = {}
        """Those that a worker has states of, and are held by another since."""
        self.kept = [Kept() for _ in range(count)]
        self.loads = Loads(count)
        self.in_work = bytes(256)
        """1 for each that a task may change now."""
        self.entered: list[Assembly] = []
        """In the order of their turns."""
        self.group: GroupState | None = None
        """Whose bundles are at the stage: those of another composition wait until they are through."""

    def mine(self, worker: WorkerId) -> int:
        """256 bytes with 1 for each that ``worker`` owns and that is not in work."""
        return self.owned.get(worker, 0) & ~int.from_bytes(self.in_work)

    def begin(self, worker: WorkerId, piece: Piece) -> dict[int, tuple[Payload, ...]]:
        """A piece goes to ``worker``: as ``lend``, and its partitions stay there until ``end``."""
        self._mark(piece.partitions, 1)
        return self.lend(worker, piece.partitions)

    def end(self, piece: Piece) -> None:
        """Its task is over."""
        self._mark(piece.partitions, 0)

    def lend(self, worker: WorkerId, partitions: Sequence[int]) -> dict[int, tuple[Payload, ...]]:
        """A task of ``worker`` may change these; returns what is kept of those whose state it has not, and nothing for
        those that it has no more: their memory is freed."""
        missing = {each: tuple(self.kept[each].blobs) for each in partitions if self.holders[each] != worker}
        for each in missing:
            if (former := self.holders[each]) is not None:
                self.stale.setdefault(former, set()).add(each)
            self.holders[each] = worker
        moved = {each for each in self.stale.pop(worker, ()) if self.holders[each] != worker}
        return dict.fromkeys(sorted(moved), ()) | missing

    def outgrown(self, partitions: Sequence[int]) -> bytes:
        """Those of which a snapshot is wanted."""
        return bytes(each for each in partitions if self.kept[each].outgrown)

    def commit(self, changes: Mapping[int, Change]) -> None:
        """A task succeeded, and made these."""
        for each, change in changes.items():
            self.kept[each].commit(change)

    def enter(self, assembly: Assembly, group: GroupState) -> None:
        """A bundle, in its turn."""
        if len(self.owned) > 1:
            self.loads.note(assembly.routes.partitions)
        self.entered.append(assembly)
        self.group = group

    def leave(self, assembly: Assembly) -> None:
        """It is done."""
        self.entered.remove(assembly)
        if not self.entered:
            self.group = None

    def next_piece(self, worker: WorkerId) -> Piece | None:
        """What ``worker`` may run now: of the oldest bundle that has values for it, so that each partition has its
        values in order."""
        mine = self.mine(worker)
        return next((piece for each in self.entered if (piece := each.take(mine)) is not None), None)

    def piece(self, bundle: Bundle, picked: bytes) -> Piece:
        """The one of ``bundle`` that was given out with these values."""
        return next(each for each in self.entered if each.bundle is bundle).piece(picked)

    @property
    def waits(self) -> bool:
        """Whether there are values that no worker has or has had."""
        return any(1 in each.todo for each in self.entered)

    def lose(self, worker: WorkerId) -> None:
        """Its states are gone."""
        self.stale.pop(worker, None)
        self.holders = [None if each == worker else each for each in self.holders]

    def share(self, workers: Sequence[WorkerId]) -> None:
        """From now on these own all, evenly by number; only those move that must, and those that have a state stay with
        it. Where the same own them already, those move that make it even by load, where they must."""
        if set(workers) == self.owned.keys():
            if self.loads.due:
                self._level(self.loads.look())
            return
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
        for worker, mine in owned.items():
            for each in mine:
                self.owners[each] = worker
        self._own(workers)

    def _level(self, loads: Sequence[int]) -> None:
        """Keys are skewed: who has too much of the work gives partitions away."""
        owned = {worker: [each for each, owner in enumerate(self.owners) if owner == worker] for worker in self.owned}
        for each, worker in moves(owned, loads).items():
            self.owners[each] = worker
        self._own(list(owned))

    def _own(self, workers: Sequence[WorkerId]) -> None:
        self.owned = {
            worker: marked(each for each, owner in enumerate(self.owners) if owner == worker) for worker in workers
        }

    def _mark(self, partitions: Sequence[int], sign: int) -> None:
        marks = bytearray(self.in_work)
        for each in partitions:
            marks[each] = sign
        self.in_work = bytes(marks)
