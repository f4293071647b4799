"""A runner that is killed, or stopped and let go on later, while another goes on with its run: real processes."""

import signal
from pathlib import Path

import pytest
from runners import Process, frozen_for_a_while


@pytest.mark.long
def test_an_acknowledged_item_leaves_once_however_often_a_runner_dies(tmp_path: Path, processes: list[Process]) -> None:
    acknowledged, seen = 0, list[int]()
    for epoch in range(1, 6):
        processes.append(runner := Process(epoch, tmp_path))
        assert runner.shown(len(seen))[: len(seen)] == seen, "what was seen is there, and in its place"
        for _ in range(3 * epoch):
            serials, refusal = runner.ask("push", *range(acknowledged, acknowledged + 5))
            assert serials == list(range(acknowledged, acknowledged + len(serials))), refusal
            acknowledged += len(serials)
        seen = runner.ask("results")
        assert seen == list(range(len(seen)))
        runner.signal(signal.SIGKILL)
    processes.append(last := Process(6, tmp_path))
    assert last.shown(acknowledged) == list(range(acknowledged))


def test_a_stopped_runner_that_goes_on_later_writes_nothing(tmp_path: Path, processes: list[Process]) -> None:
    processes.append(old := Process(1, tmp_path))
    assert old.ask("push", *range(10))[0] == list(range(10))
    old.stop()
    processes.append(new := Process(2, tmp_path))
    assert new.ask("push", 10)[0] == [10]
    assert new.shown(11) == list(range(11))
    frozen_for_a_while()
    old.signal(signal.SIGCONT)
    serials, refusal = old.ask("push", 11)
    assert (serials, "writes nothing any more" in refusal or "takes no more items" in refusal) == ([], True)
    shown = old.ask("results")
    assert shown == list(range(len(shown)))
    assert len(shown) <= 10, "it shows nothing of the other's epoch"
    assert new.ask("push", 11)[0] == [11]
