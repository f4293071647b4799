"""Tasks and their results as messages of the transport, in which a stage is a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from profiler.snapshot import StageTiming
from runtime.dispatch.events import TaskDone, TaskFailed, WorkerId
from runtime.dispatch.instructions import Task
from runtime.transport.wire import Frame, Frames, Kind, Message


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Process and machine of a worker: for status, for its end, and for where to start others."""

    pid: int
    pid_space: str
    """Where this number means this process (``runtime/pools/processes.py``)."""
    address: str
    node: str
    """Ray's id of the machine."""

    def frames(self) -> list[Frame]:
        return [str(each).encode() for each in (self.pid, self.pid_space, self.address, self.node)]

    @classmethod
    def of(cls, frames: Frames) -> Whereabouts:
        pid, space, address, node = (bytes(frame).decode() for frame in frames)
        return cls(int(pid), space, address, node)


class Language:
    """For one app: its stages, in order."""

    def __init__(self, stages: Sequence[str]) -> None:
        self._stages = tuple(stages)
        self._index = {name: index for index, name in enumerate(self._stages)}

    def message(self, task: Task) -> Message:
        index = self._index
        states = {index[name]: state for name, state in task.states.items() if state is not None}
        return Message(Kind.TASK, task.task_id, index[task.stages[0]], len(task.stages), task.payload, states)

    def done(self, now_s: float, worker: WorkerId, message: Message) -> TaskDone:
        times = iter(message.timings)
        names = self._stages[message.first : message.first + message.span]
        timings = tuple(map(StageTiming, names, times, times))
        states = {self._stages[index]: state for index, state in message.states.items()}
        return TaskDone(now_s, worker, message.task_id, message.payload, timings, states)

    def failed(self, now_s: float, worker: WorkerId, message: Message) -> TaskFailed:
        error = bytes(message.payload[0]).decode()
        return TaskFailed(now_s, worker, message.task_id, self._stages[message.first], error)

    @staticmethod
    def whereabouts(ready: Message) -> Whereabouts:
        return Whereabouts.of(ready.payload)
