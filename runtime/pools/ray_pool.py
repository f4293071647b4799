"""The ``ray`` pool: Ray places and starts one actor a worker; items travel beside Ray, through the hub."""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import ray
from ray.util import get_node_ip_address

from apps.contract import App
from compositions.errors import RecomposeError
from runtime.dispatch.events import Event, WorkerAnswered, WorkerId, WorkerJoined, WorkerLost, WorkerStartFailed
from runtime.dispatch.instructions import Task
from runtime.pools.blocking_calls import BlockingCalls
from runtime.pools.places import NodeId, Places
from runtime.pools.processes import Process
from runtime.pools.ray_actors import Actors
from runtime.pools.ray_language import Language
from runtime.pools.ray_settings import RayPoolSettings, ways_of
from runtime.transport.hub import Hub
from runtime.transport.wire import Kind, Message

__all__ = ["RayPool", "RayPoolSettings"]


@dataclass(slots=True)
class _Member:
    """A worker from its request to its end."""

    pid: int = 0
    """0 until it has joined."""
    node: NodeId = ""
    process: Process = field(default_factory=Process)


class RayPool:
    """Workers are Ray actors, started from a driver or from inside an actor; Ray must be connected already.

    The loop's thread makes no call to Ray: a head that is away stops no stream.
    """

    def __init__(
        self, make_app: Callable[[], App], stages: Sequence[str], settings: RayPoolSettings | None = None
    ) -> None:
        """Raises: SettingsError for a setting out of range; RecomposeError without a connected Ray."""
        if not ray.is_initialized():
            raise RecomposeError("the ray pool needs a connected Ray; call runtime.pools.ray_cluster.connect first")
        self._settings = settings or RayPoolSettings()
        self._ways = ways_of(self._settings)
        self._host: str = get_node_ip_address()
        self._hub = Hub(unix=self._ways.unix, settings=self._settings.lobby, arena=self._settings.arena)
        self._language = Language(stages, self._hub.accounts.codec)
        self._actors = Actors(make_app, tuple(stages), self._settings, self._actor_ended)
        self._calls = BlockingCalls(self._hub.wake)
        self._places = Places(self._settings.suspect_s)
        self._members: dict[WorkerId, _Member] = {}
        self._start_by_s: dict[WorkerId, float] = {}
        """Of the members that have not joined yet."""
        self._ended: deque[tuple[WorkerId, str]] = deque()
        """Workers whose actor ended, and why; filled by a thread of Ray's as well."""
        self._numbers = itertools.count(1)
        self._closed = False
        self.codec = self._language.codec

    def now_s(self) -> float:
        return time.monotonic()

    def start(self, count: int) -> None:
        start_by_s = time.monotonic() + self._settings.start_timeout_s
        workers = [f"w{next(self._numbers)}" for _ in range(count)]
        self._members.update((worker, _Member()) for worker in workers)
        self._start_by_s.update(dict.fromkeys(workers, start_by_s))
        self._calls.ask(self._actors.nodes, partial(self._invite, workers), partial(self._not_started, workers))

    def end(self, worker: WorkerId, *, kill: bool = False) -> None:
        member = self._remove(worker)
        if member is None:
            return
        if kill or not member.pid:
            self._kill(worker, member)
        else:
            self._hub.send(worker, [Message(Kind.EXIT)])
            member.process.forget()

    def send(self, worker: WorkerId, tasks: Sequence[Task]) -> None:
        messages: list[Message] = []
        for task in tasks:  # no comprehension: there is one as a rule, and a call of its own would be dear
            messages.append(self._language.message(task))  # noqa: PERF401
        self._hub.send(worker, messages)

    def ask(self, worker: WorkerId, losses: int) -> None:
        self._hub.send(worker, [Message(Kind.ALIVE, losses)])

    def wait(self, until_s: float) -> Sequence[Event]:
        waking_s = min(until_s, *self._start_by_s.values()) if self._start_by_s else until_s
        timeout_s = None if waking_s == math.inf else max(0.0, waking_s - time.monotonic())
        received = self._hub.poll(timeout_s)
        now_s = time.monotonic()
        events: list[Event] = []
        for worker, message in received:
            if worker not in self._members:
                continue
            if message is not None and (read := self._language.answers.get(message.kind)) is not None:
                events.append(read(now_s, worker, message))
            else:
                events += self._came_or_went(now_s, worker, message)
        if self._calls.answers:
            self._calls.answer()
        if now_s >= waking_s:
            self._give_up_late_starts(now_s)
        while self._ended:
            events += self._note_end(now_s, *self._ended.popleft())
        return events

    def wake(self) -> None:
        self._hub.wake()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        members, self._members = self._members, {}
        leaving = self._ask_to_leave([worker for worker, member in members.items() if member.pid])
        for worker, member in members.items():
            if worker in leaving or not member.pid:
                self._kill(worker, member)
            member.process.forget()
        self._calls.close(self._settings.leave_s)
        self._hub.close()

    # --- workers --------------------------------------------------------------------------------------------------

    def _invite(self, workers: Sequence[WorkerId], nodes: Sequence[NodeId]) -> None:
        """Starts the workers, now that the machines are known."""
        if self._ways.network(len(nodes)):
            self._hub.open_network(self._host)
        for worker in workers:
            if member := self._members.get(worker):
                taken = [each.node for each in self._members.values()]
                place = self._places.choose(nodes, taken, time.monotonic())
                member.node = place or ""
                start = partial(self._actors.start, self._hub.invite(worker), place)
                self._calls.ask(start, otherwise=partial(self._not_started, [worker]))

    def _not_started(self, workers: Sequence[WorkerId], error: Exception) -> None:
        """As when an app cannot be pickled, or Ray was left."""
        self._ended.extend((worker, f"Ray could not start it: {type(error).__name__}: {error}") for worker in workers)

    def _actor_ended(self, worker: WorkerId, reason: str) -> None:
        self._ended.append((worker, reason))
        self._hub.wake()

    def _remove(self, worker: WorkerId) -> _Member | None:
        self._start_by_s.pop(worker, None)
        return self._members.pop(worker, None)

    def _note_end(self, now_s: float, worker: WorkerId, reason: str) -> list[Event]:
        member = self._remove(worker)
        if member is None:
            return []
        self._kill(worker, member)
        self._places.lost(member.node, [each.node for each in self._members.values() if each.pid], now_s)
        return [WorkerLost(now_s, worker, reason) if member.pid else WorkerStartFailed(now_s, reason)]

    def _give_up_late_starts(self, now_s: float) -> None:
        late = [worker for worker, start_by_s in self._start_by_s.items() if now_s >= start_by_s]
        limit_s = self._settings.start_timeout_s
        reason = f"a worker was not ready within {limit_s:g} s; the cluster may lack resources, or setup takes longer"
        self._ended.extend((worker, reason) for worker in late)

    def _kill(self, worker: WorkerId, member: _Member) -> None:
        """At once where that is possible: Ray's own way takes up to seconds when the process is stuck in C code."""
        member.process.kill()
        member.process.forget()
        self._calls.ask(partial(self._actors.kill, worker))
        self._hub.drop(worker)

    def _ask_to_leave(self, workers: Sequence[WorkerId]) -> set[WorkerId]:
        """Those that did not, in time."""
        leaving = set(workers)
        for worker in workers:
            self._hub.send(worker, [Message(Kind.EXIT)])
        leave_by_s = time.monotonic() + self._settings.leave_s
        while leaving and time.monotonic() < leave_by_s:
            leaving -= {worker for worker, message in self._hub.poll(0.1) if message is None}
        return leaving

    # --- messages -------------------------------------------------------------------------------------------------

    def _came_or_went(self, now_s: float, worker: WorkerId, message: Message | None) -> list[Event]:
        if message is None:
            # A worker that has not joined yet ends with an answer of its actor that says more.
            return self._note_end(now_s, worker, "its connection closed") if self._members[worker].pid else []
        if message.kind == Kind.ALIVE:
            return [WorkerAnswered(now_s, worker, message.task_id)]
        return [self._joined(now_s, worker, message)] if message.kind == Kind.READY else []

    def _joined(self, now_s: float, worker: WorkerId, ready: Message) -> WorkerJoined:
        member, here = self._members[worker], self._language.whereabouts(ready)
        member.pid, member.node = here.pid, here.node
        del self._start_by_s[worker]
        member.process = Process(here.pid, here.pid_space)
        self._places.joined(here.node)
        return WorkerJoined(now_s, worker, here.pid, here.address)
