"""The dispatcher's log: what failed once fails again, from a file; it is bounded, and keeps no payload."""

import tempfile
from dataclasses import replace

import pytest

from compositions.batching import Batching
from compositions.errors import RecomposeError
from compositions.model import Stage, all_sequential
from lab.simulation.invariants import CheckedDispatcher
from profiler.snapshot import StageTiming
from runtime.dispatch import event_log
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.event_log import DispatcherError
from runtime.dispatch.events import BundleAdmitted, TaskDone, Tick, WorkerJoined
from runtime.dispatch.instructions import SendTask
from runtime.dispatch.outbox import Outbox
from service.runner.runner import failure_text
from tests.support.replay import read, replay

STAGES = (Stage("a"), Stage("b"))
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
