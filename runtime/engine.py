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
"""How often time limits are looked at: a quarter second late is nothing to a limit of seconds."""
STALL_S = 1.0
"""Later than this, and the loop was elsewhere: in a sink that blocked, or not on a core."""


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
        """Return whether ``admit`` is welcome now."""
        return self._dispatcher.has_room

    @property
    def waits(self) -> bool:
        """Return whether there are admitted items that no worker has."""
        return self._dispatcher.waits

    @property
    def sheds(self) -> bool:
        """Return whether the oldest make room for new ones, so that there always is some."""
        return self._dispatcher.sheds

    @property
    def idle(self) -> bool:
        """Every admitted item is out."""
        return self._dispatcher.idle

    def admit(
        self,
        payload: Payload,
        arrived_s: tuple[float, ...],
        due_s: tuple[float, ...] | None = None,
        error: str | None = None,
    ) -> int:
        """Accept encoded items (``Routed`` if the first stage is partitioned), one per time, and return the first
        serial number. Check ``has_room`` first: this does not refuse. ``error``: reason why the app refuses them; they
        become dead letters in their place."""
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
        """Begins a switch; a SwitchEnded outcome tells how it went. One that waits for workers gives way to it."""
        now_s, estimates_s = self._pool.now_s(), (drain_estimate_s, drain_mean_s, first_result_s, wait_s)
        self._handle([SwitchRequested(now_s, composition, style, *estimates_s)])

    def call_off(self, reason: str) -> None:
        """Ends a switch that waits for workers; a SwitchEnded outcome tells of it."""
        self._handle([SwitchCalledOff(self._pool.now_s(), reason)])

    def advance(self, until_s: float) -> list[Outcome]:
        """Waits for workers until ``until_s`` at the latest, handles what came, returns all outcomes since last time.

        Returns early when something happened or the pool was woken.
        """
        if not self._outcomes:
            self._handle(self._pool.wait(min(until_s, self._dispatcher.wake_at_s, self._next_tick_s)))
        now_s = self._pool.now_s()
        if now_s >= self._next_tick_s or now_s >= self._dispatcher.wake_at_s:
            self._tick(now_s)
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def checkpoint(self, next_serial: int) -> Checkpoint | None:
        """Return how far the stream has come, if that is ``next_serial``: as the dispatcher says."""
        return self._dispatcher.checkpoint(next_serial)

    def view(self) -> DispatcherView:
        return self._dispatcher.view(self._pool.now_s())

    def close(self) -> None:
        """End the workers. A worker that still has a task is killed, as nobody waits for the result."""
        for worker in self.view().workers:
            if worker.outstanding:
                self._pool.end(worker.worker, kill=True)
        self._pool.close()

    def _tick(self, now_s: float) -> None:
        """Looks at time limits; after a stall once the answers are heard that came in it, for nobody was late."""
        if STALL_S < now_s - self._next_tick_s < math.inf:
            listen_until_s = now_s + TICK_S
            # Somebody may be late: an item is on its way, or a switch.
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
        """What was said together goes together: a worker gets its tasks by one call of the system."""
        if len(instructions) == 1 and isinstance(instructions[0], SendTask):  # as where one item is on its way
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
