"""Couple a dispatcher to a pool: events go to the one, instructions to the other, outcomes to the caller."""

import math
from collections.abc import Iterable, Sequence

from compositions.model import Composition
from runtime.construct import construct_fast
from runtime.dispatch.checkpoint import Checkpoint
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.events import BundleAdmitted, Event, SwitchCalledOff, SwitchRequested, SwitchStyle, Tick, WorkerId
from runtime.dispatch.instructions import AskWorker, Instruction, KillWorker, SendTask, StartWorkers, Task
from runtime.dispatch.keys import Payload, Routed
from runtime.dispatch.outcomes import Outcome
from runtime.dispatch.views import DispatcherView
from runtime.pools.port import WorkerPool

TICK_S = 0.25
"""Interval at which time limits are checked; limits are seconds, so a quarter of a second late does not matter."""
STALL_S = 1.0
"""Delay of a tick above which the loop counts as stalled, by a sink that blocked or for lack of a core."""


class Engine:
    """Runs one app. Not thread-safe: one thread admits, switches and advances."""

    def __init__(self, dispatcher: Dispatcher, pool: WorkerPool) -> None:
        self._dispatcher = dispatcher
        self._pool = pool
        self._outcomes: list[Outcome] = []
        self._next_tick_s = -math.inf

    def start(self) -> None:
        self._carry_out(self._dispatcher.start(self._pool.now_s()))

    @property
    def now_s(self) -> float:
        return self._pool.now_s()

    @property
    def has_room(self) -> bool:
        """True if ``admit`` may be called now."""
        return self._dispatcher.has_room

    @property
    def waits(self) -> bool:
        """True if admitted items wait to be started."""
        return self._dispatcher.waits

    @property
    def sheds(self) -> bool:
        """True if new items replace the oldest waiting ones under overload, so that there always is room."""
        return self._dispatcher.sheds

    @property
    def idle(self) -> bool:
        """True if every admitted item has left."""
        return self._dispatcher.idle

    def admit(
        self,
        payload: Payload,
        arrived_s: tuple[float, ...],
        due_s: tuple[float, ...] | None = None,
        error: str | None = None,
    ) -> int:
        """Accept encoded items (``Routed`` if the first stage is partitioned), one for each time in ``arrived_s``, and
        return the first serial number. Check ``has_room`` first: this method does not refuse. ``error``: reason why the
        app refuses the items, which become dead letters in their place."""
        serial = self._dispatcher.accepted
        payload, routes = payload if type(payload) is Routed else (payload, None)
        self._handle([construct_fast(BundleAdmitted, (self._pool.now_s(), arrived_s, payload, due_s, routes, error))])
        return serial

    def switch(
        self,
        composition: Composition,
        style: SwitchStyle = SwitchStyle.SEAMLESS,
        *,
        drain_estimate_s: float = 0.0,
        drain_mean_s: float = 0.0,
        first_result_s: float = 0.0,
        wait_s: float = 0.0,
    ) -> None:
        """Begin a switch; a SwitchEnded outcome reports its end. A switch that still waits for workers is cancelled."""
        now_s, estimates_s = self._pool.now_s(), (drain_estimate_s, drain_mean_s, first_result_s, wait_s)
        self._handle([SwitchRequested(now_s, composition, style, *estimates_s)])

    def call_off(self, reason: str) -> None:
        """Cancel a switch that waits for workers; a SwitchEnded outcome reports it."""
        self._handle([SwitchCalledOff(self._pool.now_s(), reason)])

    def advance(self, until_s: float) -> list[Outcome]:
        """Wait for events until ``until_s`` at the latest, handle them, and return all outcomes since the last call.

        Return early if an event came or the pool was woken.
        """
        if not self._outcomes:
            self._handle(self._pool.wait(min(until_s, self._dispatcher.wake_at_s, self._next_tick_s)))
        now_s = self._pool.now_s()
        if now_s >= self._next_tick_s or now_s >= self._dispatcher.wake_at_s:
            self._tick(now_s)
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def checkpoint(self, next_serial: int) -> Checkpoint | None:
        """Return a checkpoint at ``next_serial``, or None: see ``Dispatcher.checkpoint``."""
        return self._dispatcher.checkpoint(next_serial)

    def view(self) -> DispatcherView:
        return self._dispatcher.view(self._pool.now_s())

    def close(self) -> None:
        """End the workers. A worker that still has a task is killed, as its result is not needed."""
        for worker in self.view().workers:
            if worker.outstanding:
                self._pool.end(worker.worker, kill=True)
        self._pool.close()

    def _tick(self, now_s: float) -> None:
        """Check time limits. After a stall, first handle answers that came meanwhile: those workers were not late."""
        if STALL_S < now_s - self._next_tick_s < math.inf:
            listen_until_s = now_s + TICK_S
            # Only if a time limit may have passed: an item or a switch is under way.
            while now_s < listen_until_s and (not self._dispatcher.idle or self._dispatcher.wake_at_s < math.inf):
                self._handle(self._pool.wait(listen_until_s))
                now_s = self._pool.now_s()
        self._next_tick_s = now_s + TICK_S
        self._handle([Tick(now_s)])

    def _handle(self, events: Iterable[Event]) -> None:
        instructions, outcomes = self._dispatcher.handle_all(events)
        self._outcomes += outcomes
        if instructions:
            self._carry_out(instructions)

    def _carry_out(self, instructions: Sequence[Instruction]) -> None:
        """Carry out instructions; all tasks of a worker are sent together, in one system call."""
        if len(instructions) == 1 and isinstance(instructions[0], SendTask):  # the fast path of a light stream
            worker, task = instructions[0]
            self._pool.send(worker, (task,))
            return
        tasks: dict[WorkerId, list[Task]] = {}
        for instruction in instructions:
            if isinstance(instruction, SendTask):
                worker, task = instruction
                tasks.setdefault(worker, []).append(task)
            elif isinstance(instruction, StartWorkers):
                self._pool.start(instruction.count, instruction.loads)
            elif isinstance(instruction, AskWorker):
                self._pool.ask(instruction.worker, instruction.losses)
            else:
                self._pool.end(instruction.worker, kill=isinstance(instruction, KillWorker))
        for worker, its in tasks.items():
            self._pool.send(worker, its)
