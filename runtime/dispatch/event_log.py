"""A bounded log of the dispatcher's events as plain data, so that a test can replay a failure in the field.

dask's worker state machine keeps its stimuli in the same way. The log begins with the dispatcher's state at some event
and has every event since. A full part is kept while the next one is written, which begins with the state at that time.
Of payloads only the sizes are kept.

Later versions can read a log that goes back to the start. A log that begins with a state needs the version that wrote
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
# Like pickle, an object that is referred to twice is written once. Unlike pickle, people can read the log, and a reader
# (``tests.support.replay``) creates objects only of classes in the packages ``ROOMS``.


@dataclass(frozen=True, slots=True)
class Blob:
    """A placeholder for a payload of that size, whose content is not kept."""

    size_bytes: int

    def __len__(self) -> int:
        return self.size_bytes


_ROOT = __name__.removesuffix("runtime.dispatch.event_log")
ROOMS = tuple(f"{_ROOT}{room}." for room in ("compositions", "profiler", "runtime.dispatch", "runtime.scheduling"))
_TIMES = frozenset({"arrived_s", "due_s"})
"""Fields with one time per item, which need no conversion; a bundle may have thousands."""


@cache
def is_ours(cls: Any) -> bool:
    """Return whether objects of a class are written as their fields: true for classes of the state and of events."""
    return cls.__module__.startswith(ROOMS) and not issubclass(cls, Mapping)


class Writer:
    """Converts values to plain data. Objects seen before become references: read all output, in order."""

    def __init__(self, size_of: Callable[[Any], int]) -> None:
        self._size_of = size_of
        self._seen: dict[int, tuple[int, Any]] = {}
        """Number of each object by its id, with the object, so that its id is not reused."""

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
        """Return a field as plain data. Payloads and states are the app's: only their sizes are written."""
        if name == "payload" and value is not None:
            return self.plain(self._blob(value))
        if name == "states":
            return self.plain({stage: None if state is None else self._blob(state) for stage, state in value.items()})
        if name == "kept":
            return self.plain(StatesByKey(value.count))
        if name in _TIMES and type(value) is tuple:
            return {"$": "tuple", "items": value}
        if name == "ledger":  # a replay needs no checkpoints
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
"""Length of a part in cells: about 8,000 events, a second of the fastest stream. Two parts take 3 MB."""


class EventLog:
    """The log. Events are logged before they are handled, so the last event of the log is the one that failed."""

    def __init__(self, state: State, settings: DispatcherSettings, size_of: SizeOf) -> None:
        self._state = state
        self._settings = settings
        self._size_of = size_of
        self._forgotten = 0
        self._older: list[Any] = []
        self._older_count = self._noted_count = 0
        """Number of events in each part."""
        self._noted: list[Any] = []
        """The events of the present part. Events with a payload are stored as several cells in this one list: objects
        that stay alive would cost more than the rest of the logging."""
        self._times = 0
        """Number of arrival times in the part, of which a bundle may have many."""
        self._opening = self._newer_opening = self._plain_start()

    @property
    def count(self) -> int:
        """Number of events since the start, including those no longer kept."""
        return self._forgotten + self._older_count + self._noted_count

    def note(self, event: Event) -> None:
        """Log an event without a payload. Such events are rare, so only here a full part is checked for."""
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
        """Yield the log as JSON lines: the opening, then one event per line."""
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
    """An internal error of the dispatcher. ``log`` ends with the event that failed: write its ``lines`` to a file, and
    ``tests.support.replay`` fails in the same way."""

    def __init__(self, reason: str, event: Event, log: EventLog) -> None:
        self.log = log
        super().__init__(f"internal error of the dispatcher at event {log.count}, {type(event).__name__}: {reason}")


def _events(cells: Iterable[Any]) -> Iterator[Event]:
    """Yield the logged cells as events, with placeholders for payloads and one timing for the whole task."""
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
    """Return ``keyed`` with the numbers of the changed partitions, but without their states."""
    if not keyed.changes:
        return keyed
    return KeyedDone(keyed.routes, {stage: dict.fromkeys(made, _NO_STATES) for stage, made in keyed.changes.items()})
