"""Encode tasks and their results as messages of the transport, in which a stage is a number."""

from __future__ import annotations

import json
import pickle
import struct
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import itemgetter
from typing import Any, NamedTuple, cast

from profiler.snapshot import StageTiming, timings_of
from runtime.arena.reference import Reference
from runtime.construct import construct_fast
from runtime.dispatch import events
from runtime.dispatch.events import NO_STATES, NOTHING_KEYED, Event, ItemFault, TaskDone, WorkerId
from runtime.dispatch.instructions import KeyedTask, Task
from runtime.dispatch.keys import Changed, KeyStates, Mosaic
from runtime.pools.execute import StageError
from runtime.pools.perform import Performed
from runtime.transport.values import Carried, Frame, FrameCodec
from runtime.transport.wire import Kind, Message, plain_text

# Encode the states of keys between a worker and its pool: all in one frame, one after the other.
#
# Pickle would look up each state in its memo and copy it into a growing buffer: 2,000 states of a kilobyte took three
# times as long to write, and twice as long to read.

ByStage = Mapping[str, Mapping[int, KeyStates]]
"""Key states by stage and partition."""
_NO_STATE = -1
_Keys = dict[str, list[tuple[int, list[Any]]]]


class Contents(NamedTuple):
    """The contents of a frame of states: the keys by stage and partition, and the length of each state in bytes, in the
    same order; negative for a deleted key."""

    keys: _Keys
    lengths: bytes


class Made(NamedTuple):
    """The contents of a frame of new states of a task: the keys and their partitions by stage, and the lengths."""

    keys: dict[str, tuple[Sequence[Any], bytes]]
    lengths: bytes


def packed(states: ByStage) -> tuple[Contents, bytes]:
    """Return the contents and the frame of some states."""
    parts = [part for stage in states.values() for part in stage.values()]
    lengths, frame = _joined(list(chain.from_iterable(part.values() for part in parts)))
    keys = {name: [(each, list(part)) for each, part in stage.items()] for name, stage in states.items()}
    return Contents(keys, lengths), frame


def unpacked(contents: Contents, frame: Frame) -> dict[str, dict[int, KeyStates]]:
    """Inverse of ``packed``. Raises: struct.error for another frame."""
    left = iter(_cut(contents.lengths, frame))
    return {
        name: {each: dict(zip(keys, islice(left, len(keys)), strict=True)) for each, keys in stage}
        for name, stage in contents.keys.items()
    }


def packed_changes(changes: ByStage) -> tuple[Made, bytes]:
    """Return the contents and the frame of the new states of a task."""
    made = {name: Changed.of(each) for name, each in changes.items()}
    lengths, frame = _joined([state for each in made.values() for state in each.states])
    return Made({name: (each.touched, each.partitions) for name, each in made.items()}, lengths), frame


def unpacked_changes(made: Made, frame: Frame) -> dict[str, Changed]:
    """Inverse of ``packed_changes``. Raises: struct.error for another frame."""
    every, begin, changes = _cut(made.lengths, frame), 0, {}
    for name, (keys, partitions) in made.keys.items():
        changes[name] = Changed(keys, partitions, every[begin : begin + len(keys)])
        begin += len(keys)
    return changes


def _joined(every: list[bytes | None]) -> tuple[bytes, bytes]:
    """Return the lengths of the states, and the states one after the other."""
    if None in every:
        lengths = array("q", [_NO_STATE if state is None else len(state) for state in every])
        return lengths.tobytes(), b"".join(filter(None, every))
    there = cast(list[bytes], every)
    return array("q", list(map(len, there))).tobytes(), b"".join(there)


def _cut(given: bytes, frame: Frame) -> tuple[bytes | None, ...]:
    lengths = array("q", given)
    every: tuple[bytes | None, ...] = struct.Struct(_form(lengths)).unpack(frame)
    if lengths and min(lengths) < 0:
        every = tuple(None if length < 0 else state for length, state in zip(lengths, every, strict=True))
    return every


def _form(lengths: array[int]) -> str:
    if lengths and lengths.count(lengths[0]) == len(lengths):
        return f"{max(0, lengths[0])}s" * len(lengths)
    return "".join([f"{max(0, length)}s" for length in lengths])


_SECONDS = itemgetter(1, 2)
"""Wall and CPU time of a ``StageTiming``."""
_TASK, _DONE = int(Kind.TASK), int(Kind.DONE)
_LETTER = 0xFFFF
"""The key in a message's states of the pickled data for partitioned stages; no stage has this number."""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """The process and machine of a worker: for the status, to end it, and to place others."""

    pid: int
    pid_space: str
    """The space in which the process id is valid (``runtime/pools/limits.py``)."""
    address: str
    node: str
    """Ray's id of the machine."""

    def frames(self) -> list[Frame]:
        return [str(each).encode() for each in (self.pid, self.pid_space, self.address, self.node)]

    @classmethod
    def of(cls, frames: Sequence[Carried]) -> Whereabouts:
        pid, space, address, node = (plain_text(frame).decode() for frame in frames)
        return cls(int(pid), space, address, node)


class Language:
    """Converts tasks and results to messages and back, for one app with its stages in order."""

    def __init__(self, stages: Sequence[str], codec: FrameCodec) -> None:
        self._stages = tuple(stages)
        self._index = {name: index for index, name in enumerate(self._stages)}
        self.codec = codec
        self.answers: Mapping[int, Callable[[float, WorkerId, Message], Event]] = {
            int(Kind.DONE): self.done,
            int(Kind.PARTLY): self.done,
            int(Kind.FAILED): self.failed,
        }
        """The functions that read a worker's answers, by kind of message."""

    def message(self, task: Task) -> Message:
        index = self._index
        task_id, _, names, payload, states, start, items, keyed = task
        given = {index[name]: state for name, state in states.items() if state is not None} if states else {}
        if keyed is not None or type(payload) is Mosaic:
            given[_LETTER], payload = _letter(keyed, payload)
        first, span = index[names[0]], len(names)
        return construct_fast(Message, (_TASK, task_id, first, span, payload, given, (), start, items, ()))

    def task(self, message: Message) -> Task:
        """Return the task of a message, without the serial number, which no worker needs."""
        _, task_id, first, span, payload, given, _, start, items, _ = message
        stages = self._stages[first : first + span]
        if not given:
            return Task(task_id, -1, stages, payload, NO_STATES, start, items)
        keyed, payload = _read(given[_LETTER], payload) if _LETTER in given else (None, payload)
        states = {self._stages[index]: state for index, state in given.items() if index != _LETTER}
        return Task(task_id, -1, stages, payload, states, start, items, keyed)

    def stages_of(self, task: Message) -> tuple[str, ...]:
        return self._stages[task.first : task.first + task.span]

    @staticmethod
    def answer_alone(task: Message, payload: Sequence[Carried], times_s: Sequence[float]) -> Message:
        """Return the DONE answer to a task of one item without states."""
        _, task_id, first, span, _, _, _, _, _, _ = task
        return construct_fast(Message, (_DONE, task_id, first, span, payload, NO_STATES, times_s, 1, 1, ()))

    def answer(self, task: Message, performed: Performed) -> Message:
        """Return the answer DONE, or PARTLY if items failed, with the values, the new states and the timings."""
        payload, timed, given, faults, keyed, values = performed
        timings = [*chain.from_iterable(map(_SECONDS, timed))]
        states = {self._index[name]: state for name, state in given.items()} if given else {}
        if keyed is not NOTHING_KEYED:
            told_states, changed = packed_changes(keyed.changes)
            states[_LETTER] = [pickle.dumps((keyed.routes, told_states), protocol=5), changed]
        kind = Kind.DONE
        if faults:
            told = [(fault.position, self._index[fault.stage], fault.error) for fault in faults]
            kind, payload = Kind.PARTLY, [json.dumps(told).encode(), *payload]
        made = task.items if values is None else values
        return Message(kind, task.task_id, task.first, task.span, payload, states, timings, made, task.items)

    def refusal(self, task: Message, error: StageError) -> Message:
        """Return the answer FAILED with the traceback."""
        at, items = (0, 0) if error.position is None else (error.position, 1)
        text = error.traceback_text.encode(errors="replace")
        return Message(Kind.FAILED, task.task_id, self._index[error.stage], 1, [text], start=at, items=items)

    def done(self, now_s: float, worker: WorkerId, message: Message) -> TaskDone:
        kind, task_id, first, span, payload, given, times, made, _, _ = message
        if span == 1 and len(times) == 2:
            timings: tuple[StageTiming, ...] = (construct_fast(StageTiming, (self._stages[first], *times)),)
        else:
            timings = timings_of(self._stages[first : first + span], times)
        if not given and kind == _DONE:
            done = now_s, worker, task_id, payload, timings, NO_STATES, (), NOTHING_KEYED, made
            return construct_fast(TaskDone, done)
        keyed = _changed(given[_LETTER]) if _LETTER in given else NOTHING_KEYED
        states = {self._stages[index]: state for index, state in given.items() if index != _LETTER}
        if kind != Kind.PARTLY:
            return TaskDone(now_s, worker, task_id, payload, timings, states, (), keyed, made)
        return TaskDone(now_s, worker, task_id, payload[1:], timings, states, self._faults(payload[0]), keyed, made)

    def _faults(self, frame: Carried) -> tuple[ItemFault, ...]:
        return tuple(ItemFault(at, self._stages[index], error) for at, index, error in json.loads(plain_text(frame)))

    def failed(self, now_s: float, worker: WorkerId, message: Message) -> events.TaskFailed:
        error, position = plain_text(message.payload[0]).decode(), message.start if message.items else None
        return events.TaskFailed(now_s, worker, message.task_id, self._stages[message.first], error, position)


def _changed(letter: Sequence[Carried]) -> events.KeyedDone:
    (routes, told_states), changed = pickle.loads(_bytes_of(letter[0])), _bytes_of(letter[1])
    return events.KeyedDone(routes, unpacked_changes(told_states, changed))


def _letter(keyed: KeyedTask | None, payload: Sequence[Carried] | Mosaic) -> tuple[list[Carried], Sequence[Carried]]:
    """Return the data for partitioned stages, and the frames of the payload, with those of its parts in sequence."""
    contents, kept = packed(keyed.kept if keyed is not None else {})
    plain = None if keyed is None else keyed._replace(kept={})
    if not isinstance(payload, Mosaic):
        return [pickle.dumps((plain, contents, None), protocol=5), kept], payload
    shape = payload.counts, payload.picks, tuple(map(len, payload.parts))
    return [pickle.dumps((plain, contents, shape), protocol=5), kept], [each for part in payload.parts for each in part]


def _read(letter: Sequence[Carried], frames: Sequence[Carried]) -> tuple[KeyedTask | None, Any]:
    """Inverse of ``_letter``."""
    plain, contents, shape = pickle.loads(_bytes_of(letter[0]))
    keyed = None if plain is None else plain._replace(kept=unpacked(contents, _bytes_of(letter[1])))
    if shape is None:
        return keyed, frames
    counts, picks, lengths = shape
    rest = iter(frames)
    return keyed, Mosaic(counts, picks, tuple(list(islice(rest, length)) for length in lengths))


def _bytes_of(frame: Carried) -> Frame:
    """Return a frame as bytes. Raises: ValueError for a reference, which only values may be."""
    return plain_text(frame) if isinstance(frame, Reference) else frame
