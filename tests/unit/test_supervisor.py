"""What a restarted daemon brings back, and what it leaves."""

from __future__ import annotations

from control.decisions import Mode
from profiler.slo import Slo
from service.bodies.spec import InputSpec, RunSpec, SourceSpec
from service.daemon.fake_runner import fake_supervisor
from service.daemon.store import State

PUSH = RunSpec(app="synthetic", source=SourceSpec(kind="push"), input=InputSpec(rate_per_s=5))
WIDE = b'app: synthetic\ncompositions: [{name: wide, notation: "Par*4(f1,f2,f3)"}]\n'


def test_a_restarted_daemon_brings_everything_back() -> None:
    state = State(None)
    first = fake_supervisor(state)
    first.restore()
    first.start(PUSH)
    first.add_compositions(WIDE)
    first.remove_composition("synthetic", "3")
    first.set_slo("synthetic", Slo("latency", 400.0))
    first.set_mode("synthetic", Mode.PINNED, "wide")
    before = first.status("synthetic")
    history = first.decisions("synthetic", 100)
    first.close()

    second = fake_supervisor(state)
    assert second.readiness() == "the apps that were running are not restored yet"
    second.restore()
    after = second.status("synthetic")
    for key in ("state", "mode", "composition", "slo", "input_rate_per_s"):
        assert getattr(after, key) == getattr(before, key), key
    names = [each.name for each in second.compositions("synthetic")]
    assert names == ["1", "2", "4", "5", "6", "7", "wide"]
    decisions = [each for each in second.decisions("synthetic", 100) if each.kind == "decision"]
    assert decisions[1:] == [each for each in history if each.kind == "decision"]
    second.close()
    state.close()


def test_what_was_stopped_stays_stopped() -> None:
    state = State(None)
    first = fake_supervisor(state)
    first.start(PUSH)
    first.stop("synthetic")
    second = fake_supervisor(state)
    second.restore()
    assert second.status("synthetic").state == "stopped"
    state.close()


def test_an_app_that_is_no_longer_registered_is_left_alone() -> None:
    state = State(None)
    first = fake_supervisor(state)
    first.start(PUSH)
    first.close()
    second = fake_supervisor(state, names=())
    second.restore()
    assert second.statuses() == []
    assert set(state.started()) == {"synthetic"}
    state.close()


def test_a_watched_directory_changes_what_a_running_app_chooses_from() -> None:
    state = State(None)
    supervisor = fake_supervisor(state)
    supervisor.start(PUSH)
    seven = supervisor.catalogue.of("synthetic")[6]
    supervisor.load_directory({"synthetic": [type(seven)("from-file", seven.groups)]})
    assert "from-file" in [each.name for each in supervisor.compositions("synthetic")]
    supervisor.load_directory({})
    assert "from-file" not in [each.name for each in supervisor.compositions("synthetic")]
    supervisor.close()
    state.close()


def test_options_may_change_the_stages_and_with_them_what_fits() -> None:
    state = State(None)
    supervisor = fake_supervisor(state)
    supervisor.start(PUSH.model_copy(update={"options": {"weights": "1:1:1:1"}}))
    found = supervisor.compositions("synthetic")
    assert [each.workers for each in found if each.name == "sequential"] == [4]
    assert {sum(len(group.stages) for group in each.groups) for each in found} == {4}
    supervisor.close()
    state.close()


def test_after_a_stop_counts_stay_and_rates_go() -> None:
    state = State(None)
    supervisor = fake_supervisor(state)
    supervisor.start(PUSH)
    supervisor.push("synthetic", "x")
    status = supervisor.stop("synthetic")
    assert (status.state, status.items.delivered) == ("stopped", 1)
    assert status.input_rate_per_s is None
    supervisor.set_slo("synthetic", Slo("latency", 100.0))
    assert supervisor.status("synthetic").slo.target == 100.0
    state.close()
