"""Check that a broken invariant of the dispatcher is named, and that a failure can be replayed from its log."""

import tempfile
from collections.abc import Callable
from dataclasses import replace

import pytest

from compositions.batching import Batching
from compositions.errors import RecomposeError
from compositions.model import Group, Pattern, Stage, StageKind, all_sequential
from compositions.notation import parse
from lab.simulation.invariants import CheckedDispatcher, Invariants
from profiler.snapshot import StageTiming
from runtime.dispatch import event_log
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.event_log import DispatcherError
from runtime.dispatch.events import BundleAdmitted, SwitchRequested, TaskDone, Tick, WorkerJoined
from runtime.dispatch.instructions import SendTask
from runtime.dispatch.outbox import Outbox
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.state import State
from service.runner.runner import failure_text
from tests.support.replay import read, replay

STAGES = (Stage("a"), Stage("b"))


def busy() -> State:
    """Two workers and five items: one in work, the others queued."""
    stages, settings = (STAGES[0], Stage("b", StageKind.STATEFUL)), DispatcherSettings()
    state = State.initial(stages, parse("Seq-Seq", stages, name="both"), settings)
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


SECRET = b"what nobody else should read"


def run(items: int) -> Dispatcher:
    """Two workers that answer at once, and a tick an item."""
    dispatcher = CheckedDispatcher(STAGES, replace(all_sequential(STAGES), batch=Batching(4)), size_of=len)
    dispatcher.start(0.0)
    to_do = []
    for name in ("w1", "w2"):
        dispatcher.handle(WorkerJoined(0.0, name))
    for number in range(items):
        to_do += dispatcher.handle(BundleAdmitted(number, (number,), SECRET))[0]
        while to_do:
            sent = to_do.pop()
            if isinstance(sent, SendTask):
                timing = StageTiming(sent.task.stages[0], 0.25, 0.1)
                done = TaskDone(number + 0.5, sent.worker, sent.task.task_id, SECRET, (timing,))
                to_do += dispatcher.handle(done)[0]
        dispatcher.handle(Tick(number + 0.75))
    return dispatcher


def break_outbox(monkeypatch: pytest.MonkeyPatch, at_serial: int) -> None:
    """A fault of the dispatcher itself, as one would have it in the field."""
    put = Outbox.put

    def broken(self, item, *rest):
        if item.serial == at_serial:
            raise KeyError("a fault for this test")
        return put(self, item, *rest)

    monkeypatch.setattr(Outbox, "put", broken)


def test_a_failure_in_the_field_fails_again_from_its_file_until_it_is_mended(monkeypatch, tmp_path):
    path = tmp_path / "events.jsonl"
    with monkeypatch.context() as broken:
        break_outbox(broken, at_serial=3)
        with pytest.raises(DispatcherError, match=r"event 18, TaskDone: KeyError: 'a fault for this test'") as failed:
            run(10)
        path.write_text("\n".join(failed.value.log.lines()))
        with pytest.raises(DispatcherError, match=r"event 18, TaskDone: KeyError: 'a fault for this test'"):
            replay(path.read_text().splitlines())
    mended = replay(path.read_text().splitlines())
    assert mended.dispatcher.view(4.0).delivered == 4


def test_a_broken_invariant_is_found_at_the_event_that_broke_it(monkeypatch):
    monkeypatch.setattr(Outbox, "put", lambda self, *_: [])
    with pytest.raises(DispatcherError, match=r"event 6, TaskDone: .*item 0 is in 0 places: none"):
        run(3)


def test_a_full_log_forgets_its_older_part_and_opens_with_the_state_of_then(monkeypatch):
    monkeypatch.setattr(event_log, "PART_CELLS", 100)
    dispatcher = run(50)
    lines = list(dispatcher.log.lines())
    recording = read(lines)
    assert recording.before + len(recording.events) == dispatcher.log.count == 3 + 4 * 50
    assert len(recording.events) < 60
    assert replay(lines).dispatcher.view(50.0) == dispatcher.view(50.0)


def test_payloads_are_not_in_it_but_their_sizes_are():
    text = "\n".join(run(2).log.lines())
    assert SECRET.decode() not in text
    assert f'"size_bytes": {len(SECRET)}' in text


def test_another_file_is_refused_with_a_sentence():
    for lines in (['{"serial": 1}'], []):
        with pytest.raises(ValueError, match="not a log of the dispatcher"):
            read(lines)
    with pytest.raises(ValueError, match="'Popen' is no class of the dispatcher"):
        read([next(iter(run(1).log.lines())), '{"$": "Popen", "number": 0}'])


def failed_dispatcher() -> DispatcherError:
    dispatcher = Dispatcher(STAGES, all_sequential(STAGES))
    dispatcher.start(0.0)
    with pytest.raises(DispatcherError) as failed:
        dispatcher.handle(Tick(None))  # type: ignore[arg-type]  # a fault, for this test
    return failed.value


def test_an_error_of_the_dispatcher_names_a_file_that_fails_again(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    text = failure_text(failed_dispatcher(), "demo")
    assert "internal error of the dispatcher at event 2, Tick: TypeError" in text
    (path,) = tmp_path.glob("*.events.jsonl")
    assert str(path) in text
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(DispatcherError, match="at event 2, Tick: TypeError"):
        replay(path.read_text().splitlines())


def test_where_no_file_can_be_written_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    assert "The events that led to it could not be written" in failure_text(failed_dispatcher(), "demo")


def test_users_read_sentences_and_others_a_stack():
    assert failure_text(RecomposeError("no such stage"), "demo") == "no such stage"
    with pytest.raises(KeyError) as stumbled:
        {}["x"]
    assert "Traceback" in failure_text(stumbled.value, "demo")
