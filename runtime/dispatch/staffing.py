"""Staffing: how many workers are wanted, and that the free ones stand where work waits."""

from __future__ import annotations

from runtime.dispatch.events import WorkerJoined
from runtime.dispatch.instructions import StartWorkers, StopWorker
from runtime.dispatch.outcomes import WorkersChanged
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.state import State
from runtime.dispatch.turn import Turn
from runtime.dispatch.work import Work


class Staffing:
    def __init__(self, state: State, turn: Turn, settings: DispatcherSettings, work: Work) -> None:
        self._crew = state.crew
        self._course = state.course
        self._stateful = state.stateful
        self._turn = turn
        self._settings = settings
        self._work = work

    def joined(self, event: WorkerJoined) -> None:
        """A worker is there; where it stands is said by ``assign``."""
        self._crew.join(event)
        self._turn.outcomes.append(WorkersChanged(event.at_s, joined=(event.worker,)))

    def start_missing(self) -> None:
        """Starts what is wanted and neither there nor on its way."""
        if missing := self._crew.start_missing(self._wanted, self._turn.now_s):
            self._turn.instructions.append(StartWorkers(missing))

    def stop_surplus(self) -> None:
        """Stops workers beyond those wanted that have been idle for long."""
        idle_before_s = self._turn.now_s - self._settings.idle_worker_s
        for worker in self._crew.remove_surplus(self._wanted, idle_before_s):
            self._stateful.lose(worker)
            self._turn.instructions.append(StopWorker(worker))

    def assign(self) -> None:
        """Binds free workers to groups and gives them work."""
        for group in self._crew.assign(self._course.draining, self._course.active):
            self._work.dispatch(group)

    def share(self) -> None:
        """Where workers are short, those that are idle go where an item waits and nobody stands: downstream first, for
        what is nearly done frees room, and the old composition first."""
        groups = [group for pipeline in self._course.pipelines for group in reversed(pipeline.groups)]
        for worker in self._crew.idle():
            for group in groups:
                if (group is worker.group or not group.workers) and self._work.waits_for_worker(group):
                    self._crew.bind(worker, group)
                    self._work.dispatch(group)
                    break

    @property
    def _wanted(self) -> int:
        return self._course.workers_wanted + self._settings.spares
