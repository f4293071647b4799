"""Partitioned stages in a worker: the states of its keys, the changes of a task, and their undoing."""

import asyncio
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise, repeat
from pickle import dumps, loads
from typing import Any

from apps.contract import App
from apps.keys import Partitions
from compositions.errors import RecomposeError, shown
from compositions.model import Stage, StageKind
from runtime.dispatch.events import NOTHING_KEYED, KeyedDone
from runtime.dispatch.instructions import KeyedTask
from runtime.dispatch.keys import Changed, KeyStates, Routed, Routes, StatesByKey
from runtime.pools.port import STATE_MUST, no_pair, unfit
from runtime.transport.values import any_outputs, spread

_FIXED = frozenset({int, float, complex, str, bytes, bool, type(None)})
"""States of these types cannot be changed in place."""
States = dict[Any, Any]
Together = Callable[[list[Any], States], tuple[Any, Mapping[Any, Any]]]
"""A batch stage: called with values and the states of their keys; returns results and new states of some keys."""
Encode = Callable[[list[Any]], Any]
_PAIR = "(values, states), states a dict with the key of each"


class StatesError(Exception):
    """States of ``stage`` cannot be pickled or unpickled; the text has the traceback."""

    def __init__(self, stage: str, text: str) -> None:
        self.stage = stage
        super().__init__(text)


class ElsewhereError(RecomposeError):
    """A value's key differs between this worker and the worker that made the value."""


class KeyedStage:
    """The states of one stage in one worker, by partition and key. New states of a task are kept apart until the next
    task begins or the task is undone. So a task looks up each state twice; with very many keys, a look-up takes about
    five reads of uncached memory."""

    def __init__(self, app: App, stage: Stage) -> None:
        self._call: Callable[[Any, Any], tuple[Any, Any]] = getattr(app, stage.name)
        self._key_of: Callable[[Any], Any] = getattr(app, f"{stage.name}_key")
        self._partitions = Partitions(stage.partitions, stage.bounds)
        self._states = StatesByKey(stage.partitions)
        self._lent: set[int] = set()
        """The partitions that this worker holds."""
        self._unread: dict[int, KeyStates] = {}
        """Received states of partitions that have not been unpickled yet."""
        self._routes: bytes | None = None
        """The expected partitions of the present task's values; None: not given."""
        self._touched: dict[Any, int] = {}
        """Keys that the present task may have changed, and their partitions."""
        self._now: States = {}
        """The states of these keys after the task."""
        self._before: bytes | None = None
        """The pickled states of these keys before the task, if one may be changed in place; otherwise None."""

    def load(self) -> None:
        """Unpickle received states. Raises: the error of an unpickling that fails."""
        for partition, kept in list(self._unread.items()):
            states = {key: loads(state) for key, state in kept.items() if state is not None}
            self._states.put(states, partial(_all_in, partition, states))
            self._lent.add(partition)
            del self._unread[partition]

    def begin(self, kept: Mapping[int, KeyStates], routes: bytes | None) -> None:
        """Begin a task, and make the changes of the one before final. ``kept``: states of new partitions, and nothing
        for partitions that moved to another worker; the task has no values of the latter."""
        self._keep()
        self._routes = routes
        self._unread.update(kept)
        for partition in kept:
            self._states.drop(partition)
            self._lent.discard(partition)
            if routes is not None and partition not in routes:
                del self._unread[partition]

    def run(self, values: list[Any]) -> tuple[list[Any], BaseException | None]:
        """Run the stage; return the results up to the first value that raises, and the error or None."""
        keys = self._found(values)
        if keys is None:
            return self._first_without_key(values)
        out: list[Any] = []
        try:
            call, now = self._call, self._now
            for value, key in zip(values, keys, strict=True):
                result, now[key] = call(value, now[key])
                out.append(result)
        except (Exception, SystemExit) as error:
            return out, no_pair(error, call, "(value, state)")
        return out, None

    def run_together(self, values: list[Any], call: Together) -> tuple[Any, BaseException | None]:
        """Run a batch stage, with all values and the states of their keys in one call; return as ``run`` does, without
        checking the number of results. Raises: errors of ``call``; RecomposeError for a state of an unknown key."""
        if self._found(values) is None:
            return self._first_without_key(values)
        try:
            made, states = call(values, self._now.copy())
        except (TypeError, ValueError) as error:
            if (told := no_pair(error, self._call, _PAIR)) is error:
                raise  # unchanged, with its cause
            raise told from None
        if not isinstance(states, Mapping):
            raise RecomposeError(
                f"{self._call.__name__} must return {_PAIR}; instead of states it returned {shown(states)}"
            )
        results = made if hasattr(made, "to_pylist") else list(made)  # a generator may change states to its end
        if strange := [key for key in states if key not in self._touched]:
            raise RecomposeError(f"the stage returned a state of key {shown(strange[0])}, but no value has this key")
        self._now.update(states)
        return results, None

    def _found(self, values: list[Any]) -> list[Any] | None:
        """Return the keys of the values, and load the keys' states; None if a key is at fault."""
        try:
            keys = list(map(self._key_of, values))
            owners = self._partitions.of(keys)
        except (Exception, SystemExit):
            return None
        if owners != (self._routes or owners) or not self._lent >= set(owners):
            return None
        touched = dict(zip(keys, owners, strict=True))
        now = self._states.looked_up(touched)
        self._before = None if _FIXED.issuperset(map(type, now.values())) else dumps(now, 5)
        self._touched, self._now = touched, now
        return keys

    def changes(self) -> Changed:
        """Return the new states of the keys that the task touched, each pickled by itself. Raises: errors of pickle."""
        now = self._now.values()
        states: list[bytes | None] = list(map(dumps, now, repeat(5)))
        if type(None) in set(map(type, now)):
            states = [None if state is None else made for state, made in zip(now, states, strict=True)]
        return Changed(list(self._touched), bytes(self._touched.values()), states)

    def _keep(self) -> None:
        self._states.put(self._now, lambda: self._touched)
        self._forget()

    def undo(self) -> None:
        """Undo the changes of a task that failed."""
        if self._before is None:
            self._forget()
        else:
            self._now = loads(self._before)
            self._keep()

    def routes(self, items: Sequence[Any]) -> Routes:
        """Return the partitions of the items' values; partition 0 for a value whose key is at fault."""
        flat, counts = spread(items) if any_outputs(items) else (items, None)
        try:
            found = self._partitions.of(list(map(self._key_of, flat)))
        except (Exception, SystemExit):
            found = bytes(map(self._partition_of, flat))
        return Routes(found, None if counts is None else tuple(counts))

    def _partition_of(self, value: Any) -> int:
        with suppress(Exception, SystemExit):
            return self._partitions.of([self._key_of(value)])[0]
        return 0

    def _first_without_key(self, values: list[Any]) -> tuple[list[Any], BaseException]:
        """Return as ``run`` does, for the first value whose key is at fault, without running any value."""
        for at, value in enumerate(values):
            try:
                self._check(value, at)
            except (Exception, SystemExit) as error:
                return [None] * at, error
        return [], RuntimeError("a value had a key in one call but none in another; its key must not change")

    def _check(self, value: Any, at: int) -> None:
        """Check a value's key. Raises: ElsewhereError if its partition is unexpected; errors of the key's method."""
        key = self._key_of(value)
        (partition,) = self._partitions.of([key])
        if partition not in self._lent or (self._routes and partition != self._routes[at]):
            raise ElsewhereError(
                f"the key {shown(key)} of this value differs from the key computed when it was made; a key may"
                " depend only on the value and on constants, not on objects that setup made"
            )

    def _forget(self) -> None:
        self._touched, self._now, self._before = {}, {}, None


def _all_in(partition: int, keys: Iterable[Any]) -> dict[Any, int]:
    return dict.fromkeys(keys, partition)


def routing(app: App, encode: Encode) -> Encode:
    """Return ``encode`` for items to be admitted; if the first stage is partitioned, it adds their routes."""
    first = KeyedStages(app).first
    if first is None:
        return encode
    return lambda values: Routed(encode(values), first.routes(values))


class KeyedStages:
    """All partitioned stages of an app, in one worker."""

    def __init__(self, app: App) -> None:
        names = [stage.name for stage in app.stages]
        self._stages = {each.name: KeyedStage(app, each) for each in app.stages if each.kind is StageKind.PARTITIONED}
        self._after = {before: self._stages[name] for before, name in pairwise(names) if name in self._stages}
        self.first = self._stages.get(names[0]) if names else None
        self.turn = asyncio.Lock()
        """Lock for one task at a time: changes of another task that comes while one waits would mix with its own."""
        self._failed: int | None = None
        """The id of the latest task that failed."""

    def __bool__(self) -> bool:
        return bool(self._stages)

    def __contains__(self, name: str) -> bool:
        return name in self._stages

    def of(self, name: str) -> KeyedStage:
        return self._stages[name]

    def any_of(self, stages: Sequence[str]) -> bool:
        """Return whether one of ``stages`` is partitioned."""
        return any(name in self._stages for name in stages)

    def follow(self, stages: Sequence[str]) -> bool:
        """Return whether a partitioned stage follows ``stages``."""
        return stages[-1] in self._after

    def begin(self, stages: Sequence[str], task: KeyedTask | None) -> None:
        """Begin a task in its partitioned stages. Raises: StatesError for states that cannot be unpickled."""
        own = {name: self._stages[name] for name in stages if name in self._stages}
        for name, stage in own.items():
            stage.begin(task.kept.get(name, {}) if task else {}, task.partitions if task else None)
        for name, stage in own.items():
            try:
                stage.load()
            except Exception:
                text = f"the states that went in cannot be unpickled\n{traceback.format_exc()}"
                raise StatesError(name, text) from None

    def is_behind_failed(self, task: KeyedTask | None) -> bool:
        """Return whether the task that ``task`` was sent behind has failed."""
        return task is not None and task.behind is not None and task.behind == self._failed

    def undo(self, task_id: int, stages: Sequence[str]) -> None:
        """Undo the changes of the present task, which failed."""
        self._failed = task_id
        for name in stages:
            if (stage := self._stages.get(name)) is not None:
                stage.undo()

    def done(self, stages: Sequence[str], items: Sequence[Any]) -> KeyedDone:
        """Return the routes and new states of a result. Raises: StatesError for states that cannot be pickled."""
        after = self._after.get(stages[-1])
        own = [name for name in stages if name in self._stages]
        if not own and after is None:
            return NOTHING_KEYED
        changes = {name: self._changes(name) for name in own}
        return KeyedDone(None if after is None else after.routes(items), changes)

    def _changes(self, name: str) -> Changed:
        try:
            return self._stages[name].changes()
        except Exception:
            raise StatesError(name, unfit(f"the state after {name}", STATE_MUST)) from None
