"""The ``local`` pool: threads of this process. For tests, apps that release the GIL, and uses without Ray."""

import asyncio
import itertools
import os
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

from apps.contract import App
from compositions.model import Loads
from profiler.snapshot import timings_of
from runtime.dispatch import events
from runtime.dispatch.events import Event, WorkerId
from runtime.dispatch.instructions import Task
from runtime.dispatch.keys import Mosaic, Payload
from runtime.pools.calls import Calls
from runtime.pools.execute import StageError, run_now
from runtime.pools.perform import perform, perform_alone
from runtime.pools.port import at_once
from runtime.pools.set_up import set_up, tear_down
from runtime.transport.values import pickled, put_together, unpickled


class PickleCodec:
    """Pickles items even within this process: a stage that changes its input in place must not spoil a retry."""

    def encode(self, values: Sequence[Any]) -> Payload:
        return pickled(values)

    def decode(self, payload: Payload, start: int = 0, stop: int | None = None) -> list[Any]:
        if type(payload) is Mosaic:
            return put_together(payload, self.decode)[start:stop]
        return unpickled(payload, (), start, stop)

    def size_bytes(self, payload: Payload) -> int:
        return sum(map(len, payload.parts)) if type(payload) is Mosaic else len(payload)


CODEC = PickleCodec()


class LocalPool:
    """Worker threads, each with an app instance of its own."""

    def __init__(self, make_app: Callable[[], App], clock: Callable[[], float] = time.monotonic) -> None:
        self._make_app, self._clock = make_app, clock
        self._events: queue.SimpleQueue[tuple[WorkerId, Event] | None] = queue.SimpleQueue()
        """Events with their workers; None wakes ``wait``, which sets the times: a stalled loop gets events late."""
        self._inboxes: dict[WorkerId, queue.SimpleQueue[Task | None]] = {}
        self._numbers = itertools.count(1)

    def now_s(self) -> float:
        return self._clock()

    def start(self, count: int, loads: Loads = ()) -> None:
        for _ in range(count):
            worker = f"w{next(self._numbers)}"
            inbox: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
            self._inboxes[worker] = inbox
            args = worker, inbox, loads
            threading.Thread(target=self._work, args=args, name=f"recompose-{worker}", daemon=True).start()

    def end(self, worker: WorkerId, *, kill: bool = False) -> None:
        """End a worker. A thread cannot be killed: a hung one is abandoned, and its later results are ignored."""
        inbox = self._inboxes.pop(worker, None)
        if inbox is not None:
            inbox.put(None)

    def send(self, worker: WorkerId, tasks: Sequence[Task]) -> None:
        if inbox := self._inboxes.get(worker):
            for task in tasks:
                inbox.put(task)

    def ask(self, worker: WorkerId, losses: int) -> None:
        """Report at once that the worker is alive, as a thread does not die by itself."""
        if worker in self._inboxes:
            self._events.put((worker, events.WorkerAnswered(self.now_s(), worker, losses)))

    def wait(self, until_s: float) -> Sequence[Event]:
        came: list[tuple[WorkerId, Event] | None] = []
        timeout_s = max(0.0, until_s - self.now_s())
        try:
            came.append(self._events.get(timeout=min(timeout_s, threading.TIMEOUT_MAX)))
            while True:
                came.append(self._events.get_nowait())
        except queue.Empty:
            now_s = self.now_s()
            return [_heard(now_s, each[1]) for each in came if each is not None and self._is_current(*each)]

    def wake(self) -> None:
        self._events.put(None)

    def close(self) -> None:
        for worker in list(self._inboxes):
            self.end(worker)

    def lose(self, worker: WorkerId) -> None:
        """Abandon a thread as if its process had died; for tests of worker loss."""
        self.end(worker)
        self._events.put((worker, events.WorkerLost(self.now_s(), worker, "told to by the test")))

    def _is_current(self, worker: WorkerId, event: Event) -> bool:
        """Return whether to report an event: of an ended worker only its loss. Remove a worker that failed to start."""
        if isinstance(event, events.WorkerStartFailed):
            return self._inboxes.pop(worker, None) is not None
        return isinstance(event, events.WorkerLost) or worker in self._inboxes

    def _work(self, worker: WorkerId, inbox: queue.SimpleQueue[Task | None], loads: Loads) -> None:
        try:
            app = set_up(self._make_app, loads)
        except Exception as error:
            failed = events.WorkerStartFailed(self.now_s(), f"{type(error).__name__}: {error}", loads=loads)
            self._events.put((worker, failed))
            return
        self._events.put((worker, events.WorkerJoined(self.now_s(), worker, os.getpid(), "local", loads)))
        calls = Calls(app)
        if calls.wait:
            asyncio.run(self._work_at_once(calls, worker, inbox))
        else:
            while (task := inbox.get()) is not None:
                self._events.put((worker, run_now(run_task(calls, worker, task, self.now_s))))
        tear_down(app, loads)

    async def _work_at_once(self, calls: Calls, worker: WorkerId, inbox: queue.SimpleQueue[Task | None]) -> None:
        async def tasks() -> AsyncIterator[Task]:
            while (task := await asyncio.to_thread(inbox.get)) is not None:
                yield task

        async def work(task: Task) -> None:
            self._events.put((worker, await run_task(calls, worker, task, self.now_s)))

        await at_once(tasks(), work, lambda task: calls.alone(task.stages))


async def run_task(
    calls: Calls, worker: WorkerId, task: Task, clock: Callable[[], float]
) -> events.TaskDone | events.TaskFailed:
    """Run a task whose payload and states are pickled, and return its pickled result or its failure."""
    try:
        if (alone := perform_alone(calls, task.stages, task, CODEC)) is not None:
            payload, times_s = alone
            return events.TaskDone(clock(), worker, task.task_id, payload, timings_of(task.stages, times_s))
        return events.TaskDone(clock(), worker, task.task_id, *await perform(calls, task, CODEC))
    except StageError as error:
        return events.TaskFailed(clock(), worker, task.task_id, error.stage, error.traceback_text, error.position)


def _heard(now_s: float, event: Event) -> Event:
    if isinstance(event, events.TaskDone | events.BundleAdmitted):
        return event._replace(at_s=now_s)
    return replace(event, at_s=now_s)
