"""What a run says of the error that ended it."""

import re
import tempfile
from pathlib import Path

import pytest

from compositions.errors import RecomposeError
from compositions.model import Stage, all_sequential
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.event_log import DispatcherError
from runtime.dispatch.events import Tick
from service.runner.runner import failure_text
from tests.support.replay import replay

STAGES = (Stage("a"),)


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
    found = re.search(r"in (\S+\.events\.jsonl);", text)
    assert found is not None
    path = Path(found[1])
    assert path.parent == tmp_path
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
