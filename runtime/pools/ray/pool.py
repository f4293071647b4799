"""The ``ray`` pool: Ray starts one actor per worker; items travel through the hub, not through Ray."""

import itertools
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import ray
from ray.util import get_node_ip_address

from apps.contract import App
from compositions.errors import RecomposeError
from compositions.model import Loads, Room
from runtime.dispatch import events
from runtime.dispatch.events import Event, WorkerAnswered, WorkerId, WorkerJoined, WorkerLeaving, WorkerLost
from runtime.dispatch.instructions import Task
from runtime.placement.cluster import Cluster
from runtime.pools.limits import OVER_LIMIT, Process
from runtime.pools.ray.actors import Actors
from runtime.pools.ray.cluster import is_own
from runtime.pools.ray.language import Language, Whereabouts
from runtime.pools.ray.nodes import NodeWatch
from runtime.pools.ray.seating import NodeId, Seating
from runtime.pools.ray.settings import RayPoolSettings, ways_of
from runtime.pools.ray.worker import Part
from runtime.transport.hub import Hub
from runtime.transport.wire import Kind, Message

T = TypeVar("T")


def _nothing(_: Any) -> None:
    """Ignore an answer."""


class BlockingCalls:
    """Makes blocking calls in a thread. ``wake`` is called when an answer is ready. Only the loop's thread may call
    ``ask`` and ``answer``."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._asked: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.answers: deque[Callable[[], None]] = deque()
        """Callbacks of finished calls, which ``answer`` runs."""
        self._thread = threading.Thread(target=self._work, name="recompose-ray-calls", daemon=True)
        self._thread.start()

    def ask(
        self,
        call: Callable[[], T],
        then: Callable[[T], None] = _nothing,
        otherwise: Callable[[Exception], None] = _nothing,
    ) -> None:
        """Queue a call. ``answer`` later passes its result to ``then``, or its error to ``otherwise``."""
        self._asked.put(lambda: self._make(call, then, otherwise))

    def answer(self) -> None:
        """Run the callbacks of all finished calls."""
        while self.answers:
            self.answers.popleft()()

    def close(self, timeout_s: float) -> None:
        """Make the queued calls, for at most ``timeout_s``. May be called twice."""
        self._asked.put(None)
        self._thread.join(timeout_s)

    def _work(self) -> None:
        while (job := self._asked.get()) is not None:
            job()

    def _make(self, call: Callable[[], T], then: Callable[[T], None], otherwise: Callable[[Exception], None]) -> None:
        try:
            answer = partial(then, call())
        except Exception as error:
            answer = partial(otherwise, error)
        self.answers.append(answer)
        self._wake()


# Time limits for the start of workers: the time that Ray takes to start a process counts separately from the time that
# the worker takes.

BEGIN_TIMES = 5
"""Ray's time limit for starting a process, as a multiple of the worker's own: Python loads slowly on a busy machine."""


class StartLimits:
    """Watches the workers that are starting. Only ``began`` is thread-safe."""

    def __init__(self, limit_s: float, wake: Callable[[], None]) -> None:
        """``wake``: called by ``began``, in another thread."""
        self._limit_s, self._wake = limit_s, wake
        self.by_s: dict[WorkerId, float] = {}
        """Time by which each worker must have joined. This and ``told`` are attributes, as each poll reads them."""
        self._begun: set[WorkerId] = set()
        self.told: deque[WorkerId] = deque()
        """Workers whose process has started since the last ``note``; filled by another thread."""

    def ask(self, workers: Iterable[WorkerId], now_s: float) -> None:
        """Record that these workers were requested."""
        self.by_s.update(dict.fromkeys(workers, now_s + BEGIN_TIMES * self._limit_s))

    def began(self, worker: WorkerId) -> None:
        """Record that the worker's process has started."""
        self.told.append(worker)
        self._wake()

    def forget(self, worker: WorkerId) -> None:
        """Forget a worker that has joined, or will not."""
        self.by_s.pop(worker, None)
        self._begun.discard(worker)

    def note(self, now_s: float) -> None:
        """Start the time limit of workers whose process has started meanwhile."""
        while self.told:
            if (worker := self.told.popleft()) in self.by_s:
                self.by_s[worker] = now_s + self._limit_s
                self._begun.add(worker)

    @property
    def next_s(self) -> float:
        """The earliest time at which a starting worker is late; infinite without any."""
        return min(self.by_s.values(), default=math.inf)

    def late(self, now_s: float) -> list[tuple[WorkerId, str]]:
        """Return the late workers, each with an error message."""
        return [(worker, self._why(worker)) for worker, by_s in self.by_s.items() if now_s >= by_s]

    def _why(self, worker: WorkerId) -> str:
        limit_s = self._limit_s
        if worker in self._begun:
            return f"a worker was not ready {limit_s:g} s after its process began; its setup may take longer"
        return f"Ray started no process for a worker in {BEGIN_TIMES * limit_s:g} s; the cluster may lack resources"


TOLD = {f"exit code {OVER_LIMIT}": "it used more than worker_memory_mb or worker_processes allows"}


@dataclass(slots=True)
class _Member:
    """A worker from its request to its end."""

    pid: int = 0
    """Process id; 0 until the worker has joined."""
    node: NodeId = ""
    loads: Loads = ()
    process: Process = field(default_factory=Process)
    stays: bool = True
    """False if a replacement has been requested."""
    asked_s: float = field(default_factory=time.monotonic)


def _leaving(members: Mapping[WorkerId, _Member], seating: Seating, now_s: float) -> list[Event]:
    """Return an event for each worker to replace, once per worker. Moves that only improve the placement are made only
    while no worker starts or leaves."""
    settled = {worker: each for worker, each in members.items() if each.pid and each.stays}
    if len(settled) < len(members):
        settled = {worker: each for worker, each in settled.items() if each.node in seating.draining}
    found, why = seating.leaving({worker: (each.loads, each.node) for worker, each in settled.items()}, now_s)
    for worker in found:
        members[worker].stays = False
    return [WorkerLeaving(now_s, worker, "" if number else why) for number, worker in enumerate(found)]


class RayPool:
    """A pool whose workers are Ray actors, started by a driver or an actor; Ray must be connected already.

    The loop's thread makes no calls to Ray, so that an unreachable head stops no stream.
    """

    def __init__(
        self, make_app: Callable[[], App], stages: Sequence[str], settings: RayPoolSettings | None = None
    ) -> None:
        """Create an empty pool. Raises: SettingsError for a setting out of range; RecomposeError without a Ray."""
        if not ray.is_initialized():
            raise RecomposeError("the ray pool needs a connected Ray; call runtime.pools.ray.cluster.connect first")
        self._settings = settings or RayPoolSettings()
        self._ways = ways_of(self._settings)
        self._host: str = get_node_ip_address()
        self._hub = Hub(unix=self._ways.unix, settings=self._settings.lobby, arena=self._settings.arena)
        self._language = Language(stages, self._hub.accounts.codec)
        part = Part(make_app, tuple(stages))
        self._starts = StartLimits(self._settings.start_timeout_s, self._hub.wake)
        self._actors = Actors(part, self._settings, self._starts.began, self._actor_ended)
        self._calls = BlockingCalls(self._hub.wake)
        self._seating = Seating(NodeWatch().look, self._settings.need_of_worker, self._settings.suspect_s)
        self._seating.note(self._seating.look())
        self._members: dict[WorkerId, _Member] = {}
        self._ended: deque[tuple[WorkerId, str, bool]] = deque()
        """Workers whose actor ended, with the reason and whether another attempt may succeed."""
        self._numbers = itertools.count(1)
        self._closed = False
        self.codec = self._language.codec

    def now_s(self) -> float:
        return time.monotonic()

    def cores(self) -> float:
        """Return the cores of all nodes that workers may be on, as of a few seconds ago."""
        if self._seating.is_due(time.monotonic()):
            self._calls.ask(self._seating.look, self._seating.note)
        return self._seating.cluster.cores

    def gpus_busy(self) -> float | None:
        """Return the number of busy GPUs of the nodes; None if unknown."""
        return self._seating.cluster.gpus_busy

    def room(self) -> Room:
        """Return the number of workers of each class that the nodes could hold, as of a few seconds ago."""
        stages = self._settings.stages
        classes = {(), *((stage.name,) for stage in stages if stage.setup == "per-group")}
        if not any(self._settings.need_of_worker(loads).is_declared for loads in classes):
            return {}
        return self._seating.room(classes, [(each.loads, each.node) for each in self._members.values() if each.node])

    def start(self, count: int, loads: Loads = ()) -> None:
        workers = [f"w{next(self._numbers)}" for _ in range(count)]
        self._members.update((worker, _Member(loads=loads)) for worker in workers)
        self._starts.ask(workers, time.monotonic())
        invite = partial(self._invite, workers, loads)
        self._calls.ask(self._seating.look, invite, partial(self._not_started, workers))

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
        for task in tasks:  # no comprehension: mostly there is one task, and the extra call would be costly
            messages.append(self._language.message(task))  # noqa: PERF401
        self._hub.send(worker, messages)

    def ask(self, worker: WorkerId, losses: int) -> None:
        self._hub.send(worker, [Message(Kind.ALIVE, losses)])

    def wait(self, until_s: float) -> Sequence[Event]:
        waking_s = min(until_s, self._starts.next_s) if self._starts.by_s else until_s
        timeout_s = None if waking_s == math.inf else max(0.0, waking_s - time.monotonic())
        received = self._hub.poll(timeout_s)
        now_s = time.monotonic()
        came: list[Event] = []
        for worker, message in received:
            if worker not in self._members:
                continue
            if message is not None and (read := self._language.answers.get(message.kind)) is not None:
                came.append(read(now_s, worker, message))
            else:
                came += self._came_or_went(now_s, worker, message)
        if self._calls.answers:
            self._calls.answer()
            came += _leaving(self._members, self._seating, now_s)
        if self._starts.told:
            self._starts.note(now_s)
        if now_s >= waking_s:
            self._ended.extend((worker, why, True) for worker, why in self._starts.late(now_s))
        while self._ended:
            came += self._note_end(now_s, *self._ended.popleft())
        return came

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

    def _invite(self, workers: Sequence[WorkerId], loads: Loads, cluster: Cluster) -> None:
        """Start the workers, now that the nodes and which of them answer are known."""
        self._seating.note(cluster)
        if len(cluster.nodes) >= self._ways.network_from:
            self._hub.open_network(self._host)
        taken = [(each.loads, each.node) for each in self._members.values() if each.node]
        wanted = [worker for worker in workers if worker in self._members]
        nodes, lacking = self._seating.choose(loads, len(wanted), taken, time.monotonic())
        # Before the first worker has joined, any waiting worker of a previous pool may be used, also on these nodes.
        avoided = self._seating.draining if any(each.pid for each in self._members.values()) else ()
        for worker, node in zip(wanted, nodes, strict=False):
            self._members[worker].node = node or ""
            start = partial(self._actors.start, self._hub.invite(worker), node, loads, avoided)
            self._calls.ask(start, otherwise=partial(self._not_started, [worker]))
        passing = not is_own() or self._seating.could_hold(loads)  # no node joins a Ray of our own
        self._ended.extend((worker, lacking, passing) for worker in wanted[len(nodes) :])

    def _not_started(self, workers: Sequence[WorkerId], error: Exception) -> None:
        """Report workers that Ray could not start, for example because the app cannot be pickled."""
        why = f"Ray could not start it: {type(error).__name__}: {error}"
        self._ended.extend((worker, why, False) for worker in workers)

    def _actor_ended(self, worker: WorkerId, reason: str) -> None:
        self._ended.append((worker, reason, False))
        self._hub.wake()

    def _remove(self, worker: WorkerId) -> _Member | None:
        self._starts.forget(worker)
        return self._members.pop(worker, None)

    def _note_end(self, now_s: float, worker: WorkerId, reason: str, passing: bool = False) -> list[Event]:
        member = self._remove(worker)
        if member is None:
            return []
        how = member.process.how_ended()
        reason = reason if how is None else f"its process ended: {TOLD.get(how, how)}"
        self._kill(worker, member)
        self._seating.lost(member.node, [each.node for each in self._members.values() if each.pid], now_s)
        if member.pid:
            return [WorkerLost(now_s, worker, reason)]
        return [events.WorkerStartFailed(now_s, reason, passing, member.loads)]

    def _kill(self, worker: WorkerId, member: _Member) -> None:
        """Kill a worker's process directly if possible: Ray takes seconds if the process is stuck in C code."""
        member.process.kill()
        member.process.forget()
        self._calls.ask(partial(self._actors.kill, worker))
        self._hub.drop(worker)

    def _ask_to_leave(self, workers: Sequence[WorkerId]) -> set[WorkerId]:
        """Ask workers to end, and return those that did not within the time limit."""
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
            # If the worker has not joined yet, its actor's answer gives a better reason.
            return self._note_end(now_s, worker, "its connection closed") if self._members[worker].pid else []
        if message.kind == Kind.ALIVE:
            return [WorkerAnswered(now_s, worker, message.task_id)]
        if message.kind != Kind.READY:
            return []
        member, here = self._members[worker], Whereabouts.of(message.payload)
        member.pid, member.node = here.pid, here.node
        self._starts.forget(worker)
        member.process = Process(here.pid, here.pid_space)
        self._seating.joined(here.node, member.loads, now_s - member.asked_s)
        return [WorkerJoined(now_s, worker, here.pid, here.address, member.loads)]
