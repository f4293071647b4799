"""A dispatcher to be driven by hand, event by event."""

from compositions.model import Composition, Stage
from compositions.notation import parse
from lab.simulation.invariants import CheckedDispatcher
from profiler.snapshot import StageTiming
from runtime.dispatch.events import (
    BundleAdmitted,
    Event,
    SwitchCalledOff,
    SwitchRequested,
    SwitchStyle,
    TaskDone,
    Tick,
    WorkerJoined,
    WorkerLost,
)
from runtime.dispatch.instructions import SendTask, Task
from runtime.dispatch.outcomes import Delivered
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.views import DispatcherView

STAGES = (Stage("a", time_limit_s=5.0), Stage("b"), Stage("c"))


def composition(notation: str, stages: tuple[Stage, ...] = STAGES) -> Composition:
    return parse(notation, stages, name=notation)


class Bench:
    """A dispatcher with a hand-moved clock and workers ``w1``, ``w2`` …; it keeps all that the dispatcher said."""

    def __init__(self, notation: str, stages: tuple[Stage, ...] = STAGES, workers: int = 0, **settings: object) -> None:
        limits = DispatcherSettings(**settings)  # type: ignore[arg-type]
        self.stages = stages
        self.dispatcher = CheckedDispatcher(stages, composition(notation, stages), limits)
        self.now_s = 0.0
        self.instructions = list(self.dispatcher.start(0.0))
        self.outcomes: list[object] = []
        self.tasks: dict[int, tuple[str, Task]] = {}
        self.join(*(f"w{number}" for number in range(1, workers + 1)))

    def handle(self, event: Event) -> None:
        instructions, outcomes = self.dispatcher.handle(event)
        self.instructions += instructions
        self.outcomes += outcomes
        for each in instructions:
            if isinstance(each, SendTask):
                self.tasks[each.task.task_id] = (each.worker, each.task)

    def join(self, *names: str) -> None:
        for name in names:
            self.handle(WorkerJoined(self.now_s, name))

    def lose(self, worker: str, reason: str = "", at_s: float | None = None) -> None:
        self.tasks = {number: given for number, given in self.tasks.items() if given[0] != worker}
        self.handle(WorkerLost(self.now_s if at_s is None else at_s, worker, reason))

    def admit(self, count: int = 1) -> None:
        for _ in range(count):
            self.handle(BundleAdmitted(self.now_s, (self.now_s,), "item"))

    def done(self, task_id: int, busy_s: float = 0.1) -> None:
        worker, task = self.tasks.pop(task_id)
        share_s = busy_s / len(task.stages)
        timings = tuple(StageTiming(stage, share_s, share_s) for stage in task.stages)
        self.handle(TaskDone(self.now_s, worker, task_id, f"{task.payload}>{task.stages[-1]}", timings))

    def switch(self, notation: str, style: SwitchStyle = SwitchStyle.SEAMLESS, **times: float) -> None:
        self.handle(SwitchRequested(self.now_s, composition(notation, self.stages), style, **times))

    def call_off(self, reason: str) -> None:
        self.handle(SwitchCalledOff(self.now_s, reason))

    def finish(self) -> None:
        """All tasks come back, the oldest first."""
        while self.tasks:
            self.done(min(self.tasks))

    def tick(self, at_s: float) -> None:
        self.now_s = at_s
        self.handle(Tick(at_s))

    def running(self) -> list[tuple[str, int, tuple[str, ...]]]:
        return sorted((worker, task.serial, task.stages) for worker, task in self.tasks.values())

    @property
    def serials(self) -> list[int]:
        """Serial numbers of the running tasks."""
        return [serial for _, serial, _ in self.running()]

    @property
    def delivered(self) -> list[int]:
        return [each.serial for each in self.of(Delivered)]

    @property
    def view(self) -> DispatcherView:
        return self.dispatcher.view(self.now_s)

    def of(self, kind: type) -> list:
        return [each for each in [*self.instructions, *self.outcomes] if isinstance(each, kind)]
