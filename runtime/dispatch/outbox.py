"""The dispatcher's output: results wait for their turn, leave in order, and are counted."""

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
    """Holds finished results until every earlier one is finished. A result may have several serial numbers in a row."""

    def __init__(self, next_serial: int = 0) -> None:
        self.next_serial = next_serial
        self.waiting: dict[int, tuple[T, int]] = {}
        """Waiting results by their first serial number, each with its count of serial numbers."""

    def __len__(self) -> int:
        return len(self.waiting)

    def put(self, serial: int, result: T, count: int = 1) -> list[T]:
        """Add the result of ``count`` serial numbers from ``serial`` on; return the results that may leave, in order.

        Raises: ValueError if the serial number has left or waits already, which would deliver it twice.
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
    """Lets items enter one stateful stage in order. Items that end before the stage must be reported here as well."""

    def __init__(self, expected: int = 0) -> None:
        self.expected = expected
        self._passed: dict[int, int] = {}
        """Items that passed ahead of their turn: the count by the first number."""

    def passed(self, serial: int, count: int = 1) -> None:
        """Record that the stage has seen ``count`` items from ``serial`` on, or never will. Idempotent."""
        if serial >= self.expected:
            self._passed[serial] = count
        while (count := self._passed.pop(self.expected, 0)) > 0:
            self.expected += count


# The size of the items that were started and have not left, in bytes: while a hung item holds the stream back, the
# memory for the items behind it is limited.


class Weight:
    """The payload bytes of started items: ``used`` now, and a prediction. An item may grow on its way: a photo in a
    file of 100 KB is an array of 6 MB a stage later. So its maximum size is predicted from finished items."""

    def __init__(self) -> None:
        self.used = self.items = 0
        self.each_bytes = 0.0
        """Moving mean, gain 1/8, of an item's maximum size between its start and its end."""

    def has_room(self, budget_bytes: int) -> bool:
        """Return whether another bundle may start."""
        return self.items == 0 or max(self.used, (self.items + 1) * self.each_bytes) < budget_bytes

    def add(self, bundle: Bundle) -> None:
        bundle.peak_bytes = bundle.size_bytes
        self.items += bundle.count
        self.used += bundle.size_bytes

    def resize(self, bundle: Bundle, size_bytes: int) -> None:
        """Record the new size of a bundle after a stage."""
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
    """The end of a started bundle: done, or failed with ``error``."""

    bundle: Bundle
    error: str | None


@dataclass(slots=True, eq=False)
class ShedRun:
    """Items shed one after the other, from serial ``first`` on; only their arrival times are kept."""

    first: int
    arrived_s: list[float]

    @property
    def serials(self) -> range:
        return range(self.first, self.first + len(self.arrived_s))


class Outbox:
    """Takes the fate of every item once, and returns the items that may leave.

    Order is kept by *turns*: an item gets its turn when it is started. Shed items never get one, so they take no room
    in the reorder buffer; they are reported in their place, before the item that was started next.

    In a durable run, the outbox also remembers the counts at the latest *bundle boundary*: all items of a bundle had
    left, and none of the next. A stage may process the items of a bundle together, so a state between two of them may
    not exist; a state between two bundles always does.
    """

    def __init__(self, begin: Checkpoint = BEGINNING, *, by_bundle: bool = False) -> None:
        """Create an outbox. ``begin``: the items that had left before. ``by_bundle``: remember bundle boundaries, as
        checkpoints with states of stages will be taken."""
        self._reorder: ReorderBuffer[Fate] = ReorderBuffer(begin.next_turn)
        self._shed_before: dict[int, ShedRun] = {}
        """Shed items by the turn of the item that was started next."""
        self.started = Weight()
        self.turns_taken = begin.next_turn
        self.delivered, self.failed, self.shed = begin.delivered, begin.failed, begin.shed
        self._bundle_ends: deque[int] | None = deque() if by_bundle else None
        """For each bundle, as started, of which not all items have left: the turn after its last item. None: not
        ``by_bundle``."""
        self._at_whole_bundle = self._out
        """The counts at the latest bundle boundary."""

    @property
    def _out(self) -> ItemsOut:
        return ItemsOut(self.delivered, self.failed, self.shed)

    @property
    def checkpoint_candidates(self) -> Iterator[ItemsOut]:
        """Positions at which a checkpoint may end, the latest first: the present one, for which the states may be
        unknown, then the latest bundle boundary."""
        yield self._out
        if self._bundle_ends is not None:
            yield self._at_whole_bundle

    @property
    def oldest_checkpoint_turn(self) -> int:
        """The earliest turn at which a checkpoint may still end; older states may be forgotten."""
        return self.next_turn if self._bundle_ends is None else self._at_whole_bundle.next_turn

    @property
    def next_turn(self) -> int:
        """The turn that leaves next."""
        return self._reorder.next_serial

    @property
    def next_serial(self) -> int:
        """The serial number that leaves next."""
        return self.delivered + self.failed + self.shed

    @property
    def waiting(self) -> Collection[int]:
        """The serial numbers of items that are done or shed and wait for earlier ones."""
        serials = [serial for bundle in self.done for serial in range(bundle.serial, bundle.serial + bundle.count)]
        return [*serials, *(serial for run in self._shed_before.values() for serial in run.serials)]

    @property
    def done(self) -> list[Bundle]:
        """Bundles that are done or failed and wait for earlier ones."""
        return [fate.bundle for fate, _ in self._reorder.waiting.values()]

    @property
    def room_taken(self) -> int:
        """Items that were started and have not left."""
        return self.turns_taken - self._reorder.next_serial

    def take_turns(self, bundle: Bundle) -> None:
        """Give the items of a started bundle the next turns."""
        bundle.turn = self.turns_taken
        self.turns_taken += bundle.count
        if self._bundle_ends is not None:
            self._bundle_ends.append(self.turns_taken)
        self.started.add(bundle)

    def put(self, bundle: Bundle, error: str | None, now_s: float) -> list[Delivered | Shed]:
        """Record that started items are done, or failed with ``error``; return what may leave now, in order."""
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
        """Record items that were shed before they started; return what may leave now, in order."""
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
