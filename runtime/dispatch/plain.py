"""Events and the dispatcher's state as plain data, which JSON can carry, and back. Payloads become their sizes.

Objects that are referred to twice are written once, as pickle does it; unlike pickle it reads nothing but the classes
named here, and people can read it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from enum import Enum
from typing import Any

from compositions.batching import Batching
from compositions.model import Composition, Group, Pattern, Stage, StageKind
from profiler.snapshot import StageTiming
from runtime.dispatch import events, state
from runtime.dispatch.by_key import StatesByKey
from runtime.dispatch.settings import DispatcherSettings


@dataclass(frozen=True, slots=True)
class Blob:
    """Stands for a payload of that size, whose content is not kept."""

    size_bytes: int

    def __len__(self) -> int:
        return self.size_bytes


CLASSES: tuple[type, ...] = (
    *(Batching, Blob, Composition, DispatcherSettings, Group, Pattern, Stage, StageKind, StageTiming),
    *(
        events.Started,
        events.BundleAdmitted,
        events.TaskDone,
        events.TaskFailed,
        events.WorkerJoined,
        events.WorkerAnswered,
    ),
    *(
        events.ItemFault,
        events.KeyedDone,
        events.WorkerLost,
        events.WorkerStartFailed,
        events.SwitchRequested,
        events.SwitchCalledOff,
        events.SwitchStyle,
        events.Tick,
    ),
    *state.CLASSES,
)
_BY_NAME = {cls.__name__: cls for cls in CLASSES}
_OURS = frozenset(CLASSES)
_TIMES = frozenset({"arrived_s", "due_s"})
"""Fields with a time an item: they are plain as they are, and a bundle has thousands."""
_CONTAINERS: dict[str, Callable[[Any], Any]] = {"tuple": tuple, "deque": deque, "set": set}


class Writer:
    """Makes values plain. What one writer has seen before, it refers to; a reader must see all of it, in order."""

    def __init__(self, size_of: Callable[[Any], int]) -> None:
        self._size_of = size_of
        self._seen: dict[int, tuple[int, Any]] = {}
        """Number of each object by its id; it is held, for the id of one that is gone may be given again."""

    def plain(self, value: Any) -> Any:
        if value is None or (isinstance(value, str | bool | int) and not isinstance(value, Enum)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"$": "float", "text": str(value)}
        if type(value) in _OURS:
            return self._object(value)
        if isinstance(value, bytes):
            return {"$": "bytes", "hex": value.hex()}
        if isinstance(value, Mapping):
            return {"$": "dict", "items": [[self.plain(key), self.plain(each)] for key, each in value.items()]}
        items = [self.plain(each) for each in value]
        return items if isinstance(value, list) else {"$": type(value).__name__, "items": items}

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


def _fields(cls: type, value: Any) -> Iterator[str]:
    if isinstance(value, tuple):
        yield from getattr(cls, "_fields")  # noqa: B009 (as above)
        return
    for base in reversed(cls.__mro__):
        yield from base.__dict__.get("__slots__", ())
    yield from getattr(value, "__dict__", ())
