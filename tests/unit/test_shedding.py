"""Overload ``shed``: however much is offered, the workers deliver what they can, and what was shed costs nothing."""

import weakref

import pytest

from compositions.model import Composition, Group, Pattern, Stage
from lab.simulation.invariants import CheckedDispatcher
from lab.simulation.machine import Cost, Machine
from lab.simulation.pool import SimulatedPool
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.events import BundleAdmitted, TaskDone, WorkerJoined
from runtime.dispatch.outcomes import Delivered, Shed
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine

STAGES = (Stage("a"),)
EIGHT = Composition("eight", (Group(("a",), Pattern.PAR, 8),))
WARM_UP_S, MEASURED_S = 2.0, 20.0


def half_a_second(stage: str, serial: int) -> Cost:
    """On average: between 0 and 1 s, so that some items wait in the reorder buffer for others."""
    return Cost(0.0, (serial * 7919) % 101 / 100)


@pytest.mark.parametrize("offered_per_s", [200, 1000, 4000])
def test_eight_workers_deliver_sixteen_a_second_whatever_is_offered(offered_per_s: int):
    pool = SimulatedPool(half_a_second, Machine(cores=8))
    engine = Engine(Dispatcher(STAGES, EIGHT, DispatcherSettings(overload="shed")), pool)
    engine.start()
    delivered, left, due_s = 0, [], WARM_UP_S / 2
    while engine.now_s < WARM_UP_S + MEASURED_S:
        while due_s <= engine.now_s:
            engine.admit(None, (due_s,))
            due_s += 1 / offered_per_s
        for outcome in engine.advance(due_s):
            if isinstance(outcome, Delivered):
                delivered += outcome.count * (outcome.at_s > WARM_UP_S)
            if isinstance(outcome, Delivered | Shed):
                left.extend(outcome.serials)
    assert delivered / MEASURED_S >= 0.97 * 16
    assert left == list(range(len(left))), "those shed are reported in their place"


def test_what_was_shed_is_not_kept_while_an_older_item_is_in_work():
    dispatcher = CheckedDispatcher(STAGES, EIGHT, DispatcherSettings(overload="shed", buffer_items=4))
    dispatcher.start(0.0)
    dispatcher.handle(WorkerJoined(0.0, "w1"))
    (sent,) = dispatcher.handle(BundleAdmitted(0.0, (0.0,), "slow"))[0]
    payloads = []
    for number in range(50):
        payload = {number}
        payloads.append(weakref.ref(payload))
        assert dispatcher.handle(BundleAdmitted(1.0, (1.0 + number,), payload)) == ([], [])
        del payload
    assert [alive() is not None for alive in payloads] == [False] * 46 + [True] * 4
    _, outcomes = dispatcher.handle(TaskDone(2.0, "w1", sent.task.task_id, "done"))
    (shed,) = [each for each in outcomes if isinstance(each, Shed)]
    assert (shed.serials, shed.arrived_s) == (range(1, 47), tuple(1.0 + number for number in range(46)))
