"""Each invariant of the dispatcher finds what breaks it, and names it."""

from collections.abc import Callable

import pytest

from compositions.model import Group, Pattern, Stage, StageKind
from compositions.notation import parse
from lab.simulation.invariants import CheckedDispatcher, Invariants
from runtime.dispatch.events import BundleAdmitted, SwitchRequested, WorkerJoined
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.state import State

STAGES = (Stage("a"), Stage("b", StageKind.STATEFUL))


def busy() -> State:
    """Two workers and five items: one in work, the others queued."""
    stages = STAGES
    composition = parse("Seq-Seq", stages, name="both")
    settings = DispatcherSettings()
    state = State.initial(stages, composition, settings)
    dispatcher = CheckedDispatcher.resumed(state, settings, lambda payload: 0)
    dispatcher.start(0.0)
    dispatcher.handle(WorkerJoined(0.0, "w1"))
    dispatcher.handle(WorkerJoined(0.0, "w2"))
    for _ in range(5):
        dispatcher.handle(BundleAdmitted(0.0, (0.0,), "item"))
    dispatcher.handle(SwitchRequested(0.0, parse("Seq(a,b)", stages, name="one")))
    return state


def swap_items(state: State) -> None:
    state.admission.queue.rotate(1)


def miscount_in_flight(state: State) -> None:
    state.course.pipelines[0].in_flight += 1


def miscount_a_load(state: State) -> None:
    state.course.pipelines[0].groups[0].load += 1


def forget_a_replica(state: State) -> None:
    group = state.course.pipelines[0].groups[0]
    group.group = Group(group.group.stages, Pattern.SEQ, 0)


def overload_a_worker(state: State) -> None:
    worker = state.crew.workers["w1"]
    worker.outstanding.extend([worker.outstanding[0]] * 2)


def count_a_delivery_twice(state: State) -> None:
    state.outbox.delivered += 1


def take_accepted_back(state: State) -> None:
    state.admission.accepted -= 1


@pytest.mark.parametrize(
    ("breaks", "sentence"),
    [
        (lambda state: state.admission.queue.pop(), "item 4 is in 0 places: none"),
        (lambda state: state.admission.queue.append(state.admission.queue[-1]), "item 4 is in 2 places: the queue, t"),
        (swap_items, r"the queue is out of order: \[4, 1, 2, 3\]"),
        (miscount_in_flight, "both counts 2 in flight; 1 are"),
        (miscount_a_load, "group 0 of both counts a load of 2; it is 1"),
        (forget_a_replica, "group 0 of both has 0 replicas; its composition says 1"),
        (lambda state: state.crew.workers.pop("w2"), "lists worker w2, which is not bound to it"),
        (overload_a_worker, r"worker w1 has tasks \[0, 0, 0\]; at most 2"),
        (count_a_delivery_twice, "1 items were counted as delivered or failed, and 0 turns have left"),
        (take_accepted_back, "accepted fell from 5 to 4"),
    ],
)
def test_a_broken_state_is_named(breaks: Callable[[State], object], sentence: str):
    state = busy()
    invariants = Invariants(state)
    assert invariants.faults() == []
    breaks(state)
    with pytest.raises(AssertionError, match=sentence):
        raise AssertionError("\n".join(invariants.faults()))
