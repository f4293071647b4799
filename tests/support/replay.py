"""Read a log of the dispatcher and replay it: the same events give the same instructions, outcomes and errors."""

import json
import sys
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, is_dataclass
from enum import Enum
from typing import Any

from lab.simulation.invariants import CheckedDispatcher
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.event_log import ROOMS, Blob, is_ours
from runtime.dispatch.events import Event
from runtime.dispatch.instructions import Instruction
from runtime.dispatch.outcomes import Outcome
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.state import State

_BY_NAME = {
    cls.__name__: cls
    for name, module in sys.modules.items()
    if name.startswith(ROOMS)
    for cls in vars(module).values()
    if isinstance(cls, type) and is_ours(cls)
}
_CONTAINERS: dict[str, Callable[[Any], Any]] = {"tuple": tuple, "deque": deque, "set": set}


class Reader:
    """Makes plain data what it was. Raises: ValueError for a class that is not one of ours."""

    def __init__(self) -> None:
        self._objects: dict[int, Any] = {}

    def value(self, plain: Any) -> Any:
        if isinstance(plain, list):
            return [self.value(each) for each in plain]
        if not isinstance(plain, dict):
            return plain
        kind = plain["$"]
        if kind == "seen":
            return self._objects[plain["number"]]
        if kind == "bytes":
            return bytes.fromhex(plain["hex"])
        if kind == "float":
            return float(plain["text"])
        if kind == "dict":
            return {self.value(key): self.value(each) for key, each in plain["items"]}
        if kind in _CONTAINERS:
            return _CONTAINERS[kind](self.value(each) for each in plain["items"])
        return self._object(kind, plain)

    def _object(self, name: str, plain: Any) -> Any:
        if name == "ItemAdmitted":  # before items travelled in bundles
            times = {key: [plain[key]] for key in ("arrived_s", "due_s") if plain.get(key) is not None}
            name, plain = "BundleAdmitted", plain | {key: {"$": "tuple", "items": each} for key, each in times.items()}
        if name not in _BY_NAME:
            raise ValueError(f"{name!r} is no class of the dispatcher; there are {', '.join(sorted(_BY_NAME))}")
        cls = _BY_NAME[name]
        if issubclass(cls, Enum):
            return cls(plain["value"])
        fields = (name for name in plain if name not in ("$", "number"))
        if _is_frozen(cls):  # built, not filled: fields that are newer than the text get their defaults
            made = cls(**{field: self.value(plain[field]) for field in fields})
            return self._objects.setdefault(plain["number"], made)
        made = self._objects[plain["number"]] = object.__new__(cls)
        for field in fields:
            setattr(made, field, self.value(plain[field]))
        return made


def _is_frozen(cls: Any) -> bool:
    return issubclass(cls, tuple) or (is_dataclass(cls) and bool(getattr(cls, "__dataclass_params__").frozen))  # noqa: B009 (unknown to types)


@dataclass(frozen=True, slots=True)
class Recording:
    """A log that was read: ``state`` before the first of ``events``; ``before`` events were forgotten."""

    state: State
    settings: DispatcherSettings
    before: int
    events: tuple[Event, ...]


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


@dataclass(frozen=True, slots=True)
class Replayed:
    """All that the dispatcher said, and the dispatcher as it was after the last event."""

    dispatcher: Dispatcher
    instructions: list[Instruction]
    outcomes: list[Outcome]


def replay(lines: Iterable[str]) -> Replayed:
    """Feed the events of a log to a dispatcher in the log's first state. Raises: DispatcherError where the recorded
    dispatcher failed, and after the first event that violates an invariant; ValueError if it is not such a log."""
    recording = read(lines)
    replayed = Replayed(CheckedDispatcher.resumed(recording.state, recording.settings, _size), [], [])
    for event in recording.events:
        instructions, outcomes = replayed.dispatcher.handle(event)
        replayed.instructions.extend(instructions)
        replayed.outcomes.extend(outcomes)
    return replayed


def _size(payload: object) -> int:
    return payload.size_bytes if isinstance(payload, Blob) else 0
