"""Everything that the dispatcher remembers from one event to the next. What acts on it keeps nothing of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compositions.model import Composition, Stage
from runtime.dispatch.admission import Admission
from runtime.dispatch.checkpoint import BEGINNING, Checkpoint
from runtime.dispatch.course import Course
from runtime.dispatch.crew import Crew
from runtime.dispatch.outbox import PARTS as OUTBOX
from runtime.dispatch.outbox import Outbox
from runtime.dispatch.phases import Draining, Preparing, Resizing
from runtime.dispatch.pipeline import PARTS as PIPELINE
from runtime.dispatch.roaming import PARTS as ROAMING
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.stateful import PARTS as STATEFUL
from runtime.dispatch.stateful import StatefulStages
from runtime.dispatch.task_book import TaskBook


@dataclass(frozen=True, slots=True)
class State:
    """An accepted item is in exactly one place: the admission queue, a group's work list, a task of a worker of the
    crew, the outbox; or it is out. The rest is counted from there (:mod:`runtime.dispatch.invariants`)."""

    admission: Admission
    course: Course
    crew: Crew
    tasks: TaskBook
    stateful: StatefulStages
    outbox: Outbox

    @staticmethod
    def initial(
        stages: Sequence[Stage],
        composition: Composition,
        settings: DispatcherSettings,
        begun: Checkpoint | None = None,
    ) -> State:
        begin = begun or BEGINNING
        admission = Admission(settings, begin.next_serial)
        course = Course(stages, composition, settings.prefetch_below_s)
        outbox = Outbox(begin, by_bundle=begun is not None and any(stage.keeps_state for stage in stages))
        return State(admission, course, Crew(), TaskBook(), StatefulStages(stages, begun), outbox)


CLASSES: tuple[type, ...] = (
    *(Admission, Course, Crew, Draining, Preparing, Resizing, State, TaskBook),
    *(*OUTBOX, *PIPELINE, *ROAMING, *STATEFUL),
)
"""All that a state is made of."""
