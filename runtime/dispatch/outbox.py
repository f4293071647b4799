"""The end of the dispatcher: results wait for their turn, leave in order, and are counted."""

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from runtime.dispatch.bundle import Bundle
from runtime.dispatch.checkpoint import BEGINNING, Checkpoint, ItemsOut
from runtime.dispatch.outcomes import Delivered, Shed

# Order: results leave by serial number, and so do items through a stateful stage (Prasaad et al., section 3).

T = TypeVar("T")


class ReorderBuffer(Generic[T]):
    """Holds finished results until every earlier one is there. Whoever puts the missing one gets all that is ready.

    A result may stand for several serial numbers in a row.
    """

    def __init__(self, next_serial: int = 0) -> None:
        self.next_serial = next_serial
        self.waiting: dict[int, tuple[T, int]] = {}
        """By the first serial number, with how many there are."""

    def __len__(self) -> int:
        return len(self.waiting)

    def put(self, serial: int, result: T, count: int = 1) -> list[T]:
        """Adds the result of ``count`` serial numbers from ``serial`` on; returns those that may leave now, in order.

        Raises: ValueError when the serial number left already or waits already, which would be a doubled delivery.
        """
        if serial < self.next_serial or serial in self.waiting:
            raise ValueError(f"serial {serial} was delivered before; next is {self.next_serial}")
        if serial == self.next_serial and not self.waiting:
            self.next_serial += count
            return [result]
        self.waiting[serial] = result, count
        ready = []
        while (head := self.waiting.pop(self.next_serial, None)) is not None:
            ready.append(head[0])
            self.next_serial += head[1]
        return ready


class OrderGate:
    """Lets the items of one stateful stage pass in serial order; items that end earlier are told to it as well."""

    def __init__(self, expected: int = 0) -> None:
        self.expected = expected
        self._passed: dict[int, int] = {}
        """Those that passed ahead of their turn: the first of a row, and how many."""

    def passed(self, serial: int, count: int = 1) -> None:
        """The stage has seen ``count`` items from ``serial`` on, or never will. Said twice, it counts once."""
        if serial >= self.expected:
            self._passed[serial] = count
        while (count := self._passed.pop(self.expected, 0)) > 0:
            self.expected += count


# The size of the items that were started and have not left, in bytes: a hung item holds the stream back, and the
# memory for those behind it is limited.


class Weight:
    """``used`` bytes of payloads now. What items come to on their way is learned from those that went it: a photo in a
    file of 100 KB is an array of 6 MB a stage later, and then it is too late to hold it back."""

    def __init__(self) -> None:
        self.used = self.items = 0
        self.each_bytes = 0.0
        """The most that an item weighs between its start and its end: a moving mean with gain 1/8."""

    def has_room(self, budget_bytes: int) -> bool:
        """Return whether another bundle may start."""
        return self.items == 0 or max(self.used, (self.items + 1) * self.each_bytes) < budget_bytes

    def add(self, bundle: Bundle) -> None:
        bundle.peak_bytes = bundle.size_bytes
        self.items += bundle.count
        self.used += bundle.size_bytes

    def resize(self, bundle: Bundle, size_bytes: int) -> None:
        """A stage made something of it."""
        self.used += size_bytes - bundle.size_bytes
        bundle.size_bytes = size_bytes
        if size_bytes > bundle.peak_bytes:
            bundle.peak_bytes = size_bytes

    def remove(self, bundle: Bundle) -> None:
        self.items -= bundle.count
        self.used -= bundle.size_bytes
        self.each_bytes += (bundle.peak_bytes / bundle.count - self.each_bytes) / 8


@dataclass(slots=True, eq=False)
class Fate:
    """The end of items that were started: done, or dead with ``error``."""

    bundle: Bundle
    error: str | None


@dataclass(slots=True, eq=False)
class ShedRun:
    """Items shed one after the other, from serial ``first`` on: all that is left of them is when they arrived."""

    first: int
    arrived_s: list[float]

    @property
    def serials(self) -> range:
        return range(self.first, self.first + len(self.arrived_s))


class Outbox:
    """Takes every item once, with its fate; gives out what may leave now.

    Order is kept by *turns*: an item takes its turn when it is started. Those shed before never take one, so that they
    cost neither room nor order; they are reported in their place, before the item that was started next.

    Where a run is durable it also remembers how many items were out when the latest *whole bundle* was: a bundle all of
    whose items have left, and none of the next. A stage may have seen the items of a bundle together, so that between
    two of them there is no state of it to be had; between two bundles there always is.
    """

    def __init__(self, begin: Checkpoint = BEGINNING, *, by_bundle: bool = False) -> None:
        """``begin``: what had left before. ``by_bundle``: checkpoints will be asked for, with states of stages, so that
        whole bundles have to be remembered."""
        self._reorder: ReorderBuffer[Fate] = ReorderBuffer(begin.next_turn)
        self._shed_before: dict[int, ShedRun] = {}
        """By the turn of the item that was started next."""
        self.started = Weight()
        self.turns_taken = begin.next_turn
        self.delivered, self.failed, self.shed = begin.delivered, begin.failed, begin.shed
        self._bundle_ends: deque[int] | None = deque() if by_bundle else None
        """Of each bundle of which not all items are out: the turn behind its last item, as it was when it was started,
        whatever it was divided into since. None: not ``by_bundle``."""
        self._at_whole_bundle = self._out
        """What was out when the latest whole bundle was."""

    @property
    def _out(self) -> ItemsOut:
        return ItemsOut(self.delivered, self.failed, self.shed)

    @property
    def checkpoint_candidates(self) -> Iterator[ItemsOut]:
        """Up to which items a checkpoint may go, the farthest first: all that are out, for which the states may not be
        known; then those that were out at the latest whole bundle."""
        yield self._out
        if self._bundle_ends is not None:
            yield self._at_whole_bundle

    @property
    def oldest_checkpoint_turn(self) -> int:
        """No checkpoint will be asked for that ends before this turn: states from before it may be forgotten."""
        return self.next_turn if self._bundle_ends is None else self._at_whole_bundle.next_turn

    @property
    def next_turn(self) -> int:
        """The turn that leaves next."""
        return self._reorder.next_serial

    @property
    def next_serial(self) -> int:
        """The serial number that leaves next: all before have left."""
        return self.delivered + self.failed + self.shed

    @property
    def waiting(self) -> Collection[int]:
        """The serial numbers of those that are done or shed, and wait for earlier ones."""
        serials = [serial for bundle in self.done for serial in range(bundle.serial, bundle.serial + bundle.count)]
        return [*serials, *(serial for run in self._shed_before.values() for serial in run.serials)]

    @property
    def done(self) -> list[Bundle]:
        """Done, or dead, and waiting for earlier ones."""
        return [fate.bundle for fate, _ in self._reorder.waiting.values()]

    @property
    def room_taken(self) -> int:
        """Items that were started and have not left."""
        return self.turns_taken - self._reorder.next_serial

    def take_turns(self, bundle: Bundle) -> None:
        """Its items are started, after all that were started before."""
        bundle.turn = self.turns_taken
        self.turns_taken += bundle.count
        if self._bundle_ends is not None:
            self._bundle_ends.append(self.turns_taken)
        self.started.add(bundle)

    def put(self, bundle: Bundle, error: str | None, now_s: float) -> list[Delivered | Shed]:
        """Started items are done, or dead (``error``); returns the outcomes of all that may leave now, in order."""
        if error is not None:
            self.started.resize(bundle, 0)
            bundle.payload = None
        out: list[Delivered | Shed] = []
        for fate in self._reorder.put(bundle.turn, Fate(bundle, error), bundle.count):
            out += self._left(fate, now_s)
            if self._shed_before:
                out += self._leave_shed(fate.bundle.turn + fate.bundle.count, now_s)
            if self._bundle_ends and fate.bundle.turn + fate.bundle.count == self._bundle_ends[0]:
                self._bundle_ends.popleft()
                self._at_whole_bundle = self._out
        return out

    def put_shed(self, bundle: Bundle, now_s: float) -> list[Delivered | Shed]:
        """Items that were never started are dropped; what may leave now, as above."""
        run = self._shed_before.setdefault(self.turns_taken, ShedRun(bundle.serial, []))
        run.arrived_s.extend(bundle.arrived_s)
        if self.room_taken > 0:
            return []
        out = self._leave_shed(self.turns_taken, now_s)
        self._at_whole_bundle = self._out
        return out

    def _leave_shed(self, turn: int, now_s: float) -> list[Delivered | Shed]:
        run = self._shed_before.pop(turn, None)
        if run is None:
            return []
        self.shed += len(run.arrived_s)
        return [Shed(now_s, run.first, tuple(run.arrived_s))]

    def _left(self, fate: Fate, now_s: float) -> list[Delivered | Shed]:
        bundle, error = fate.bundle, fate.error
        self.started.remove(bundle)
        if error is None:
            self.delivered += bundle.count
            return [_delivered(bundle, now_s)]
        self.failed += bundle.count
        alone = (_delivered(bundle.part(position, position + 1), now_s) for position in range(bundle.count))
        return [replace(each, payload=None, error=error) for each in alone]


def _delivered(bundle: Bundle, now_s: float) -> Delivered:
    assert bundle.started_s is not None, "what is in the reorder buffer has started"
    return Delivered(
        *(now_s, bundle.serial, bundle.arrived_s, bundle.started_s, bundle.composition),
        payload=bundle.payload,
        due_s=bundle.due_s,
        start=bundle.start,
    )
