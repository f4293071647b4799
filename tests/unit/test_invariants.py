"""Each invariant of the dispatcher finds what breaks it, and names it."""

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
    settings = DispatcherSettings()
    state = State.initial(STAGES, parse("Seq-Seq", STAGES, name="both"), settings)
    dispatcher = CheckedDispatcher.resumed(state, settings, lambda payload: 0)
    dispatcher.start(0.0)
    dispatcher.handle(WorkerJoined(0.0, "w1"))
    dispatcher.handle(WorkerJoined(0.0, "w2"))
    for _ in range(5):
        dispatcher.handle(BundleAdmitted(0.0, (0.0,), "item"))
    dispatcher.handle(SwitchRequested(0.0, parse("Seq(a,b)", STAGES, name="one")))
    return state


@pytest.mark.parametrize(
    ("breaks", "sentence"),
    [
        ("queue.pop()", "item 4 is in 0 places: none"),
        ("queue.append(queue[-1])", "item 4 is in 2 places: the queue, the queue"),
        ("queue.rotate(1)", r"the queue is out of order: \[4, 1, 2, 3\]"),
        ("pipeline.in_flight += 1", "both counts 2 in flight; 1 are"),
        ("group.load += 1", "group 0 of both counts a load of 2; it is 1"),
        ("group.group = NOBODY", "group 0 of both has 0 replicas; its composition says 1"),
        ("workers.pop('w2')", "lists worker w2, which is not bound to it"),
        ("workers['w1'].outstanding *= 3", r"worker w1 has tasks \[0, 0, 0\]; at most 2"),
        ("state.outbox.delivered += 1", "1 items were counted as delivered or failed, and 0 turns have left"),
        ("state.admission.accepted -= 1", "accepted fell from 5 to 4"),
    ],
)
def test_a_broken_state_is_named(breaks: str, sentence: str) -> None:
    state = busy()
    invariants, pipeline = Invariants(state), state.course.pipelines[0]
    assert invariants.faults() == []
    names = {"state": state, "queue": state.admission.queue, "workers": state.crew.workers, "pipeline": pipeline}
    exec(breaks, {**names, "group": pipeline.groups[0], "NOBODY": Group(("a",), Pattern.SEQ, 0)})
    with pytest.raises(AssertionError, match=sentence):
        raise AssertionError("\n".join(invariants.faults()))
