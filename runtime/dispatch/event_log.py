"""A bounded log of the dispatcher's events as plain data: enough to replay a failure in the field, as a test.

dask's worker state machine keeps its stimuli in the same way. The log begins with the dispatcher's state at some event
and has every event since. When it is full, it begins anew with the present state and keeps the part before. Payloads
are not kept, only their sizes.

A log that goes back to the start can be read by later versions; one that opens with a state, by the version that wrote
it.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import chain, islice
from typing import Any

from compositions.errors import RecomposeError
from profiler.snapshot import StageTiming
from runtime.dispatch.events import NOTHING_KEYED, BundleAdmitted, Event, KeyedDone, SizeOf, TaskDone
from runtime.dispatch.keys import KeyStates, StatesByKey
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.state import State

# Convert events and the dispatcher's state to plain data, which JSON can carry. Payloads become their sizes.
#
# Objects that are referred to twice are written once, as pickle does it. Unlike pickle it is read as nothing but
# classes of these rooms (``tests.support.replay``), and people can read it.


@dataclass(frozen=True, slots=True)
class Blob:
    """Stands for a payload of that size, whose content is not kept."""

    size_bytes: int

    def __len__(self) -> int:
        return self.size_bytes


_ROOT = __name__.removesuffix("runtime.dispatch.event_log")
ROOMS = tuple(f"{_ROOT}{room}." for room in ("compositions", "profiler", "runtime.dispatch", "runtime.scheduling"))
_TIMES = frozenset({"arrived_s", "due_s"})
"""Fields with a time an item: they are plain as they are, and a bundle has thousands."""


@cache
def is_ours(cls: Any) -> bool:
    """Return whether objects of a class are written by their fields: those of the state and of events are."""
    return cls.__module__.startswith(ROOMS) and not issubclass(cls, Mapping)


class Writer:
    """Makes values plain. What one writer has seen before, it refers to; a reader must see all of it, in order."""

    def __init__(self, size_of: Callable[[Any], int]) -> None:
        self._size_of = size_of
        self._seen: dict[int, tuple[int, Any]] = {}
        """Number of each object by its id; it is held, for the id of one that is gone may be given again."""

    def plain(self, value: Any) -> Any:
        kind: Any = type(value)
        if value is None or (isinstance(value, str | bool | int) and not isinstance(value, Enum)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"$": "float", "text": str(value)}
        if is_ours(kind):
            return self._object(value)
        if isinstance(value, bytes):
            return {"$": "bytes", "hex": value.hex()}
        if isinstance(value, Mapping):
            return {"$": "dict", "items": [[self.plain(key), self.plain(each)] for key, each in value.items()]}
        items = [self.plain(each) for each in value]
        return items if isinstance(value, list) else {"$": kind.__name__, "items": items}

    def _object(self, value: Any) -> Any:
        name = type(value).__name__
        if isinstance(value, Enum):
            return {"$": name, "value": value.value}
        if id(value) in self._seen:
            return {"$": "seen", "number": self._seen[id(value)][0]}
        number = len(self._seen)
        self._seen[id(value)] = number, value
        fields = {field: self._field(field, getattr(value, field)) for field in _fields(type(value), value)}
        return {"$": name, "number": number, **fields}

    def _field(self, name: str, value: Any) -> Any:
        """Payloads and states are the app's: only how large they are is told."""
        if name == "payload" and value is not None:
            return self.plain(self._blob(value))
        if name == "states":
            return self.plain({stage: None if state is None else self._blob(state) for stage, state in value.items()})
        if name == "kept":
            return self.plain(StatesByKey(value.count))
        if name in _TIMES and type(value) is tuple:
            return {"$": "tuple", "items": value}
        if name == "ledger":  # nobody asks for checkpoints of what is played again
            return None
        return self.plain(value)

    def _blob(self, payload: Any) -> Blob:
        return payload if isinstance(payload, Blob) else Blob(self._size_of(payload))


def _fields(cls: type, value: Any) -> Iterator[str]:
    if isinstance(value, tuple):
        yield from getattr(cls, "_fields")  # noqa: B009 (as above)
        return
    for base in reversed(cls.__mro__):
        yield from base.__dict__.get("__slots__", ())
    yield from getattr(value, "__dict__", ())


_NO_STATES: KeyStates = {}
PART_CELLS = 50_000
"""Length of a part: some 8,000 events, a second of the fastest stream and minutes of a slow one. Two take 3 MB."""


class EventLog:
    """Note an event before it is handled: the one that fails is the last one of the log."""

    def __init__(self, state: State, settings: DispatcherSettings, size_of: SizeOf) -> None:
        self._state = state
        self._settings = settings
        self._size_of = size_of
        self._forgotten = 0
        self._older: list[Any] = []
        self._older_count = self._noted_count = 0
        """Events in each."""
        self._noted: list[Any] = []
        """Events side by side in one list, those that carry a payload as what is kept of them: it is written for every
        event, and objects that stay alive would cost more than the rest of it."""
        self._times = 0
        """Arrival times among them: a bundle has many."""
        self._opening = self._newer_opening = self._plain_start()

    @property
    def count(self) -> int:
        """Events since the start, the forgotten ones included."""
        return self._forgotten + self._older_count + self._noted_count

    def note(self, event: Event) -> None:
        """An event that carries no payload. They are rare, so it is here that a full part is noticed."""
        if len(self._noted) + self._times > PART_CELLS:
            self._begin_part()
        self._noted.append(event)
        self._noted_count += 1

    def note_admitted(self, event: BundleAdmitted, size_bytes: int) -> None:
        self._noted.extend((BundleAdmitted, event.at_s, event.arrived_s, event.due_s, size_bytes, event.routes))
        self._times += len(event.arrived_s)
        self._noted_count += 1

    def note_done(self, event: TaskDone, busy_s: float, size_bytes: int) -> None:
        at_s, worker, task_id, _, _, states, faults, keyed, values = event
        names = tuple(states) if states else ()
        if keyed is not NOTHING_KEYED:
            keyed = _without_states(keyed)
            self._times += len(keyed.routes.partitions) // 8 if keyed.routes is not None else 0
        self._noted.extend((TaskDone, at_s, worker, task_id, busy_s, size_bytes, names, faults, keyed, values))
        self._noted_count += 1

    def lines(self) -> Iterator[str]:
        """The log as JSON lines: the opening, then an event a line."""
        yield json.dumps({"before": self._forgotten, **self._opening})
        for event in chain(_events(self._older), _events(self._noted)):
            yield json.dumps(Writer(self._size_of).plain(event))

    def _begin_part(self) -> None:
        self._forgotten += self._older_count
        self._opening, self._newer_opening = self._newer_opening, self._plain_state()
        self._older, self._noted, self._times = self._noted, [], 0
        self._older_count, self._noted_count = self._noted_count, 0

    def _plain_start(self) -> dict[str, Any]:
        writer, course = Writer(self._size_of), self._state.course
        return {
            "settings": writer.plain(self._settings),
            "stages": writer.plain(course.stages),
            "composition": writer.plain(course.active.composition),
        }

    def _plain_state(self) -> dict[str, Any]:
        writer = Writer(self._size_of)
        return {"settings": writer.plain(self._settings), "state": writer.plain(self._state)}


class DispatcherError(RecomposeError):
    """The dispatcher itself is at fault. ``log`` is what it was told, the event that failed last: write its ``lines``
    to a file, and ``tests.support.replay`` fails in the same way."""

    def __init__(self, reason: str, event: Event, log: EventLog) -> None:
        self.log = log
        super().__init__(f"internal error of the dispatcher at event {log.count}, {type(event).__name__}: {reason}")


def _events(cells: Iterable[Any]) -> Iterator[Event]:
    """Yield what was put by as events again, payloads as placeholders, timings as one for the whole task."""
    rest = iter(cells)
    for first in rest:
        if first is BundleAdmitted:
            at_s, arrived_s, due_s, size_bytes, routes = islice(rest, 5)
            yield BundleAdmitted(at_s, arrived_s, Blob(size_bytes), due_s, routes)
        elif first is TaskDone:
            at_s, worker, task_id, busy_s, size_bytes, names, faults, keyed, values = islice(rest, 9)
            timing, states = StageTiming("", busy_s, 0.0), {name: Blob(0) for name in names}
            yield TaskDone(at_s, worker, task_id, Blob(size_bytes), (timing,), states, faults, keyed, values)
        else:
            yield first


def _without_states(keyed: KeyedDone) -> KeyedDone:
    """Return which partitions changed."""
    if not keyed.changes:
        return keyed
    return KeyedDone(keyed.routes, {stage: dict.fromkeys(made, _NO_STATES) for stage, made in keyed.changes.items()})
