"""A bounded log of what the dispatcher was told: enough to play a failure in the field again, as a test.

dask's worker state machine keeps its stimuli in the same way. The log begins with the dispatcher's state at some event
and has every event since; when it is full, it begins anew with the state of now and keeps the part before. Payloads are
not kept, only their sizes.

A log that goes back to the start can be read by later versions; one that opens with a state, by the version that
wrote it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from compositions.errors import RecomposeError
from profiler.snapshot import StageTiming
from runtime.dispatch.events import NOTHING_KEYED, BundleAdmitted, Event, KeyedDone, KeyStates, SizeOf, TaskDone
from runtime.dispatch.plain import Blob, Reader, Writer
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.state import State

_NO_STATES: KeyStates = {}
PART_CELLS = 50_000
"""Length of a part: some 8,000 events, a second of the fastest stream and minutes of a slow one. Two take 3 MB."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A log that was read: ``state`` before the first of ``events``; ``before`` events were forgotten."""

    state: State
    settings: DispatcherSettings
    before: int
    events: tuple[Event, ...]


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
        at_s, worker, task_id, _, _, states, faults, keyed = event
        names = tuple(states) if states else ()
        if keyed is not NOTHING_KEYED:
            keyed = _without_states(keyed)
            self._times += len(keyed.routes.partitions) // 8 if keyed.routes is not None else 0
        self._noted.extend((TaskDone, at_s, worker, task_id, busy_s, size_bytes, names, faults, keyed))
        self._noted_count += 1

    def lines(self) -> Iterator[str]:
        """The log as JSON lines: the opening, then an event a line."""
        yield json.dumps({"before": self._forgotten, **self._opening})
        for event in self._events():
            yield json.dumps(Writer(self._size_of).plain(event))

    def _events(self) -> Iterator[Event]:
        yield from _events(self._older)
        yield from _events(self._noted)

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
    to a file, and :mod:`runtime.dispatch.replay` fails in the same way."""

    def __init__(self, reason: str, event: Event, log: EventLog) -> None:
        self.log = log
        super().__init__(f"internal error of the dispatcher at event {log.count}, {type(event).__name__}: {reason}")


def _events(cells: Iterable[Any]) -> Iterator[Event]:
    """What was put by as events again, payloads as placeholders, timings as one for the whole task."""
    rest = iter(cells)
    for first in rest:
        if first is BundleAdmitted:
            at_s, arrived_s, due_s, size_bytes, routes = islice(rest, 5)
            yield BundleAdmitted(at_s, arrived_s, Blob(size_bytes), due_s, routes)
        elif first is TaskDone:
            at_s, worker, task_id, busy_s, size_bytes, names, faults, keyed = islice(rest, 8)
            timing, states = StageTiming("", busy_s, 0.0), {name: Blob(0) for name in names}
            yield TaskDone(at_s, worker, task_id, Blob(size_bytes), (timing,), states, faults, keyed)
        else:
            yield first


def _without_states(keyed: KeyedDone) -> KeyedDone:
    """Which partitions changed."""
    if not keyed.changes:
        return keyed
    return KeyedDone(keyed.routes, {stage: dict.fromkeys(made, _NO_STATES) for stage, made in keyed.changes.items()})


def read(lines: Iterable[str]) -> Recording:
    """Reads what ``lines`` wrote. Raises: ValueError when it is not such a log."""
    opening, *rest = [json.loads(line) for line in lines if line.strip()] or [{}]
    if not isinstance(opening, dict) or "settings" not in opening:
        raise ValueError("this is not a log of the dispatcher: its first line has no settings")
    reader = Reader()
    settings = reader.value(opening["settings"])
    if "state" in opening:
        state = reader.value(opening["state"])
    else:
        state = State.initial(reader.value(opening["stages"]), reader.value(opening["composition"]), settings)
    return Recording(state, settings, opening["before"], tuple(Reader().value(each) for each in rest))
