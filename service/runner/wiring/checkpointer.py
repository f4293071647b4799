"""Make a run durable: decide what to store and when, and release results when they may leave."""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from datapipe.sources.portions import Marks, Position, Positioned, part_of
from datapipe.sources.sources import Source
from runtime.dispatch.checkpoint import Checkpoint
from runtime.dispatch.keys import Payload
from runtime.dispatch.outcomes import Delivered, Shed
from service.runner.durable.group_writer import GroupWriter
from service.runner.durable.values import Commit, Left, Resumption
from service.runner.wiring.result_buffer import ResultBatch

MOST_HELD_ITEMS = 20_000
"""Number of results waiting to be stored at which no more items are accepted."""
MOST_HELD_BYTES = 64 * 2**20
"""The same limit in bytes; the first one reached applies."""
Release = Callable[[ResultBatch], None]
Seen = Callable[[float, Delivered], None]
"""Function that is called when outputs become visible, with the time and the outputs."""
Checkpoints = Callable[[int], Checkpoint | None]
Read = Callable[[Payload], Any]
Until = Callable[[], int]
"""Function that returns the serial number below which results are at their final destination."""


class Checkpointer:
    """A checkpointer that stores nothing: results leave at once."""

    def __init__(self, release: Release) -> None:
        self._release = release
        self.seen: Seen = lambda at_s, out: None
        """Called when results become visible, if they do not leave at once."""

    def admitted(self, first: int, marks: Marks | None) -> None:
        """Record that items from serial number ``first`` on were admitted."""

    def left(self, out: Delivered | Shed) -> None:
        """Record that outputs left the dispatcher; their results follow by ``take``."""

    def take(self, run: ResultBatch) -> None:
        """Take results that left the dispatcher."""
        self._release(run)

    def turn(self, now_s: float, checkpoint: Checkpoints) -> None:
        """Take a turn after each step of the loop. ``checkpoint``: progress up to a serial number or later."""

    def close(self) -> None:
        """End: the run is over, and the sink will get no more results of it."""

    @property
    def wake_at_s(self) -> float:
        """Return the latest time of the next turn."""
        return math.inf

    @property
    def has_room(self) -> bool:
        return True

    @property
    def idle(self) -> bool:
        """Return True if everything that left and is to be stored is stored."""
        return True


class Tracker:
    """The positions of the source by serial number."""

    def __init__(self) -> None:
        self._ahead: deque[tuple[int, Marks]] = deque()

    def admitted(self, first: int, marks: Marks) -> None:
        self._ahead.append((first, marks))

    def behind(self, next_serial: int) -> dict[str, Position | None]:
        """Return the changed source positions after all delivered items. None: the partition has ended."""
        changed: dict[str, Position | None] = {}
        while self._ahead and self._ahead[0][0] < next_serial:
            first, marks = self._ahead[0]
            changed.update(part_of(marks, 0, next_serial - first))
            self._ahead.popleft()
            if (end := first + len(marks)) > next_serial:
                self._ahead.appendleft((next_serial, part_of(marks, next_serial - first, end - first)))
                break
        return changed


class RestartCheckpointer(Checkpointer):
    """Results leave at once; progress is stored at intervals, so results since the last commit may come again."""

    EVERY_S = 0.2

    def __init__(
        self, release: Release, writer: GroupWriter, source: Source, read: Read, found: Resumption, until: Until | None
    ) -> None:
        """``found``: progress of the previous runner. ``until``: None if results have no final destination."""
        super().__init__(release)
        self._writer, self._source, self._decode, self._until = writer, source, read, until
        self._tracker = Tracker()
        self._states: dict[str, tuple[Payload, Any]] = {}
        """States of stages, as decoded last."""
        self._told = self._left = found.checkpoint.next_serial
        """Serial numbers up to which progress is to be stored, and up to which items have left."""
        self._latest = Commit(found.checkpoint, wanted=found.wanted)
        """The last commit that was given to be stored."""
        self._ready: Commit | None = None
        """The commit to store when the sink has the results that left."""
        self._next_s = self._prepared_s = -math.inf

    def admitted(self, first: int, marks: Marks | None) -> None:
        if marks:
            self._tracker.admitted(first, marks)

    def take(self, run: ResultBatch) -> None:
        self._left = run.first + len(run.values)
        super().take(run)

    def turn(self, now_s: float, checkpoint: Checkpoints) -> None:
        for commit in self._writer.stored():
            self._stored(commit, now_s)
        if self._ready is None and self._left > self._told and not self._writer.busy and now_s >= self._next_s:
            self._prepare(checkpoint(self._left), now_s)
        if self._ready is not None and self._may_store(self._ready):
            self._submit(self._ready)
            self._ready = None

    def _may_store(self, commit: Commit) -> bool:
        """Return whether a commit may be stored: the results that left must be at their destination."""
        return self._until is None or self._until() >= commit.checkpoint.next_serial

    def _prepare(self, point: Checkpoint | None, now_s: float) -> None:
        self._next_s = now_s + self.EVERY_S
        if point is None or point.next_serial <= self._told:  # only part of a bundle has left: wait
            return
        self._prepared_s = now_s
        states = {stage: self._value(stage, payload) for stage, payload in point.states.items()}
        positions = self._tracker.behind(point.next_serial)
        self._told = point.next_serial
        self._ready = Commit(replace(point, states=states), positions, self._to_keep(point.next_serial))

    def _submit(self, commit: Commit) -> None:
        self._latest = replace(commit, wanted=self._wanted)
        self._writer.submit(self._latest)

    @property
    def _wanted(self) -> int | None:
        return None if self._until is None else self._until()

    def close(self) -> None:
        """Store what the sink never received, for a later reader of the journal."""
        if self._latest.wanted != self._wanted:
            told = replace(self._latest.checkpoint, keyed={})
            self._submit(replace(self._latest, checkpoint=told, positions={}, left=()))

    def _to_keep(self, until: int) -> tuple[Left, ...]:
        return ()

    def _stored(self, commit: Commit, now_s: float) -> None:
        known = {partition: at for partition, at in commit.positions.items() if at is not None}
        if known and isinstance(self._source, Positioned):
            self._source.commit(known)

    def _value(self, stage: str, payload: Payload) -> Any:
        if stage not in self._states or self._states[stage][0] is not payload:
            self._states[stage] = payload, None if payload is None else self._decode(payload)
        return self._states[stage][1]

    @property
    def wake_at_s(self) -> float:
        due = self._left > self._told and self._ready is None and not self._writer.busy
        return self._next_s if due else math.inf

    @property
    def has_room(self) -> bool:
        return self._writer.fault is None

    @property
    def idle(self) -> bool:
        return self._left == self._told and self._ready is None and not self._writer.busy


class ExactlyOnceCheckpointer(RestartCheckpointer):
    """Results are stored with the progress, and leave when they are stored, so no reader sees a result twice."""

    EVERY_S = 0.005
    """Minimum interval of commits, in seconds; on a slow disk, a commit takes longer and contains more results."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._held: deque[ResultBatch] = deque()
        """Results that were not submitted yet."""
        self._on_its_way: deque[ResultBatch] = deque()
        self._held_items = self._held_bytes = 0
        self._unseen: deque[Delivered] = deque()
        """Outputs that left and are not stored, without their values."""

    def left(self, out: Delivered | Shed) -> None:
        if isinstance(out, Delivered):
            self._unseen.append(replace(out, payload=None))

    def take(self, run: ResultBatch) -> None:
        self._left = run.first + len(run.values)
        self._held.append(run)
        self._held_items += len(run.values)
        self._held_bytes += run.size_bytes

    def _may_store(self, commit: Commit) -> bool:
        """Return True: the sink gets results only after they are stored."""
        return True

    def _to_keep(self, until: int) -> tuple[Left, ...]:
        """Return the results of items below ``until``; a later checkpoint stores and releases the others."""
        going = []
        while self._held and self._held[0].first < until:
            going.append(self._held.popleft())
        assert not going or going[-1].first + len(going[-1].values) <= until, "what leaves together is stored together"
        self._on_its_way += going
        return tuple(Left(run.first, run.values, run.error, run.size_bytes) for run in going)

    def _stored(self, commit: Commit, now_s: float) -> None:
        super()._stored(commit, now_s)
        for left in commit.left:
            self._held_items -= len(left.values)
            self._held_bytes -= left.size_bytes
            self._release(self._on_its_way.popleft())
        self._next_s = now_s + min(self.EVERY_S, now_s - self._prepared_s)
        while self._unseen and self._unseen[0].serial < commit.checkpoint.next_serial:
            self.seen(now_s, self._unseen.popleft())

    @property
    def has_room(self) -> bool:
        return super().has_room and self._held_items < MOST_HELD_ITEMS and self._held_bytes < MOST_HELD_BYTES

    @property
    def idle(self) -> bool:
        return super().idle and not self._held_items


CHECKPOINTERS: dict[str, type[RestartCheckpointer]] = {
    "restart": RestartCheckpointer,
    "exactly-once": ExactlyOnceCheckpointer,
}
