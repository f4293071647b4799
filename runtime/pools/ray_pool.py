"""The ``ray`` pool: Ray places and starts one actor a worker; items travel beside Ray, through the hub."""

from __future__ import annotations

import itertools
import math
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import ray
from ray.util import get_node_ip_address

from apps.contract import App
from compositions.errors import RecomposeError
from profiler.snapshot import StageTiming
from runtime.dispatch.events import (
    Event,
    Task,
    TaskDone,
    TaskFailed,
    WorkerId,
    WorkerJoined,
    WorkerLost,
    WorkerStartFailed,
)
from runtime.pools.ray_worker import run_worker
from runtime.transport.hub import Hub
from runtime.transport.invitation import Invitation
from runtime.transport.wire import FrameCodec, Kind, Message

_NICE_END_S = 2.0


@dataclass(frozen=True, slots=True)
class RayPoolSettings:
    num_cpus: float = 0.0
    """Ray CPUs that a worker reserves. 0: the cores do not cap the workers, as waiting stages want it."""
    resources: Mapping[str, float] = field(default_factory=dict)
    """Custom Ray resources that a worker reserves, to keep it on certain nodes."""
    transport: Literal["auto", "unix", "tcp"] = "auto"
    """``unix``: this host only. ``tcp``: encrypted, for all. ``auto``: unix here, tcp for workers on other nodes."""
    start_timeout_s: float = 60.0
    """From the request of a worker to the end of its ``setup``. Loading a data base of 10,000 images takes seconds."""


@dataclass(slots=True)
class _Member:
    """A worker from its request to its end."""

    actor: Any
    pid: int = 0
    """0 until it has joined."""
    node: str = ""


class RayPool:
    """Workers are Ray actors, started from a driver or from inside an actor; Ray must be connected already."""

    def __init__(
        self, make_app: Callable[[], App], stages: Sequence[str], settings: RayPoolSettings | None = None
    ) -> None:
        if not ray.is_initialized():
            raise RecomposeError("the ray pool needs a connected Ray; call runtime.pools.ray_cluster.connect first")
        self._make_app = make_app
        self._stages = tuple(stages)
        self._index = {name: index for index, name in enumerate(self._stages)}
        self._settings = settings or RayPoolSettings()
        self._host: str = get_node_ip_address()
        self._hub = Hub(unix=self._settings.transport != "tcp")
        self._members: dict[WorkerId, _Member] = {}
        self._start_by_s: dict[WorkerId, float] = {}
        """Of the members that have not joined yet."""
        self._ended: deque[tuple[WorkerId, str]] = deque()
        """Workers whose actor ended, and why; filled by a thread of Ray's."""
        self._numbers = itertools.count(1)
        self._closed = False
        self.codec = FrameCodec()

    def now_s(self) -> float:
        return time.monotonic()

    def start(self, count: int) -> None:
        if self._settings.transport == "tcp" or (self._settings.transport == "auto" and len(_alive_nodes()) > 1):
            self._hub.open_network(self._host)
        for _ in range(count):
            self._start_one(f"w{next(self._numbers)}")

    def end(self, worker: WorkerId, *, kill: bool = False) -> None:
        member = self._remove(worker)
        if member is None:
            return
        if kill or not member.pid:
            self._kill(member)
            self._hub.drop(worker)
        else:
            self._hub.send(worker, Message(Kind.EXIT))

    def send(self, worker: WorkerId, task: Task) -> None:
        index = self._index
        states = {index[name]: state for name, state in task.states.items() if state is not None}
        first = index[task.stages[0]]
        message = Message(Kind.TASK, task.task_id, first, len(task.stages), task.payload, states)
        self._hub.send(worker, message)

    def wait(self, until_s: float) -> Sequence[Event]:
        waking_s = min(until_s, min(self._start_by_s.values(), default=math.inf))
        timeout_s = None if waking_s == math.inf else max(0.0, waking_s - time.monotonic())
        received = self._hub.poll(timeout_s)
        now_s = time.monotonic()
        events = [self._event(now_s, worker, message) for worker, message in received if worker in self._members]
        while self._ended:
            events.append(self._note_end(now_s, *self._ended.popleft()))
        if now_s >= waking_s:
            events += self._give_up_late_starts(now_s)
        return [event for event in events if event is not None]

    def wake(self) -> None:
        self._hub.wake()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        leaving = {worker for worker, member in self._members.items() if member.pid}
        members, self._members = self._members, {}
        for worker in members:
            self._hub.send(worker, Message(Kind.EXIT))
        deadline_s = time.monotonic() + _NICE_END_S
        while leaving and time.monotonic() < deadline_s:
            leaving -= {worker for worker, message in self._hub.poll(0.1) if message is None}
        for worker, member in members.items():
            if worker in leaving or not member.pid:
                self._kill(member)
        self._hub.close()

    # --- workers --------------------------------------------------------------------------------------------------

    def _start_one(self, worker: WorkerId) -> None:
        settings = self._settings
        actor = _WorkerActor.options(num_cpus=settings.num_cpus, resources=dict(settings.resources)).remote()
        ended = actor.run.remote(self._hub.invite(worker), self._make_app, self._stages)
        ended.future().add_done_callback(partial(self._actor_ended, worker))
        self._members[worker] = _Member(actor)
        self._start_by_s[worker] = time.monotonic() + settings.start_timeout_s

    def _actor_ended(self, worker: WorkerId, ended: Future[str | None]) -> None:
        error = ended.exception()
        self._ended.append((worker, _sentence(error) if error else ended.result() or "it ended by itself"))
        self._hub.wake()

    def _remove(self, worker: WorkerId) -> _Member | None:
        self._start_by_s.pop(worker, None)
        return self._members.pop(worker, None)

    def _note_end(self, now_s: float, worker: WorkerId, reason: str) -> Event | None:
        member = self._remove(worker)
        if member is None:
            return None
        self._kill(member)
        self._hub.drop(worker)
        return WorkerLost(now_s, worker, reason) if member.pid else WorkerStartFailed(now_s, reason)

    def _give_up_late_starts(self, now_s: float) -> list[Event | None]:
        late = [worker for worker, start_by_s in self._start_by_s.items() if now_s >= start_by_s]
        limit_s = self._settings.start_timeout_s
        reason = f"a worker was not ready within {limit_s:g} s; the cluster may lack resources, or setup takes longer"
        return [self._note_end(now_s, worker, reason) for worker in late]

    def _kill(self, member: _Member) -> None:
        """At once where that is possible: Ray's own way takes up to seconds when the process is stuck in C code."""
        if member.pid and member.node == self._host:
            try:
                os.kill(member.pid, signal.SIGKILL)
            except OSError:
                pass  # it is gone, or it is in another container and Ray's way is the only one
        ray.kill(member.actor, no_restart=True)

    # --- messages -------------------------------------------------------------------------------------------------

    def _event(self, now_s: float, worker: WorkerId, message: Message | None) -> Event | None:
        if message is None:
            # A worker that has not joined yet ends with an answer of its actor that says more.
            return self._note_end(now_s, worker, "its connection closed") if self._members[worker].pid else None
        if message.kind == Kind.DONE:
            return self._done(now_s, worker, message)
        if message.kind == Kind.FAILED:
            error = bytes(message.payload[0]).decode()
            return TaskFailed(now_s, worker, message.task_id, self._stages[message.first], error)
        return self._joined(now_s, worker, message) if message.kind == Kind.READY else None

    def _done(self, now_s: float, worker: WorkerId, message: Message) -> TaskDone:
        times = iter(message.timings)
        names = self._stages[message.first : message.first + message.span]
        timings = tuple(map(StageTiming, names, times, times))
        states = {self._stages[index]: state for index, state in message.states.items()}
        return TaskDone(now_s, worker, message.task_id, message.payload, timings, states)

    def _joined(self, now_s: float, worker: WorkerId, message: Message) -> WorkerJoined:
        pid, node = (bytes(frame).decode() for frame in message.payload)
        member = self._members[worker]
        member.pid, member.node = int(pid), node
        del self._start_by_s[worker]
        return WorkerJoined(now_s, worker, member.pid, node)


class _Actor:
    def run(self, invitation: Invitation, make_app: Callable[[], App], stages: Sequence[str]) -> str | None:
        why_not = run_worker(invitation, make_app, stages, get_node_ip_address())
        if why_not is None:
            ray.actor.exit_actor()
        return why_not


_WorkerActor: Any = ray.remote(max_restarts=0, max_task_retries=0)(_Actor)  # typed as what it becomes: Ray's


def _alive_nodes() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def _sentence(error: BaseException) -> str:
    return f"its actor ended: {type(error).__name__}: {str(error).strip().splitlines()[0]}"
