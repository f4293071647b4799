"""Check what a restarted daemon brings back, and what it leaves."""

from apps import registry
from control.decisions import Mode
from profiler.slo import Slo
from service.daemon.store.store import DaemonStore
from service.runner.validation.resolution import shipped
from service.schemas.spec import InputSpec, RunSpec, SourceSpec
from tests.support.fakes import fake_daemon

PUSH = RunSpec(app="synthetic", source=SourceSpec(kind="push"), input=InputSpec(rate_per_s=5))
WIDE = b'app: synthetic\ncompositions: [{name: wide, notation: "Par*4(f1,f2,f3)"}]\n'


def test_a_restarted_daemon_brings_everything_back(disk: DaemonStore) -> None:
    first = fake_daemon(disk)
    first.restore()
    first.apps.start(PUSH)
    first.compositions.add(WIDE)
    first.compositions.remove("synthetic", "3")
    first.objectives.set("synthetic", Slo("latency", 400.0))
    first.apps.set_mode("synthetic", Mode.PINNED, "wide")
    before = first.observation.status("synthetic")
    history = first.observation.decisions("synthetic", 100)
    first.close()

    second = fake_daemon(disk)
    assert second.readiness() == ["the apps that were running are not restored yet"]
    second.restore()
    after = second.observation.status("synthetic")
    for key in ("state", "mode", "composition", "slo", "input_rate_per_s"):
        assert getattr(after, key) == getattr(before, key), key
    names = [each.name for each in second.compositions.of("synthetic")]
    assert names == ["1", "2", "4", "5", "6", "7", "wide"]
    decisions = [each for each in second.observation.decisions("synthetic", 100) if each.kind == "decision"]
    assert (decisions[1].trigger, decisions[1].to) == ("failure", "wide"), "its runner is another one"
    assert decisions[2:] == [each for each in history if each.kind == "decision"]
    second.close()


def test_what_was_stopped_stays_stopped_and_an_app_that_is_gone_is_left_alone(disk: DaemonStore) -> None:
    first = fake_daemon(disk)
    first.apps.start(PUSH)
    first.close()
    without = fake_daemon(disk, names=())
    without.restore()
    assert without.observation.statuses() == []
    assert set(disk.started()) == {"synthetic"}
    again = fake_daemon(disk)
    again.restore()
    again.apps.stop("synthetic")
    last = fake_daemon(disk)
    last.restore()
    assert last.observation.status("synthetic").state == "stopped"


def test_a_watched_directory_changes_what_a_running_app_chooses_from(disk: DaemonStore) -> None:
    daemon = fake_daemon(disk)
    daemon.apps.start(PUSH)
    seven = shipped(registry.find("synthetic")).compositions[6]
    daemon.compositions.load_directory({"synthetic": [type(seven)("from-file", seven.groups)]})
    assert "from-file" in [each.name for each in daemon.compositions.of("synthetic")]
    daemon.compositions.load_directory({})
    assert "from-file" not in [each.name for each in daemon.compositions.of("synthetic")]
    daemon.close()


def test_options_may_change_the_stages_and_with_them_what_fits(disk: DaemonStore) -> None:
    daemon = fake_daemon(disk)
    daemon.apps.start(PUSH.model_copy(update={"options": {"weights": "1:1:1:1"}}))
    found = daemon.compositions.of("synthetic")
    assert [each.workers for each in found if each.name == "sequential"] == [4]
    assert {sum(len(group.stages) for group in each.groups) for each in found} == {4}
    daemon.close()


def test_after_a_stop_counts_stay_and_rates_go(disk: DaemonStore) -> None:
    daemon = fake_daemon(disk)
    daemon.apps.start(PUSH)
    daemon.apps.push("synthetic", ("x",))
    status = daemon.apps.stop("synthetic")
    assert (status.state, status.items.delivered) == ("stopped", 1)
    assert status.input_rate_per_s is None
    daemon.objectives.set("synthetic", Slo("latency", 100.0))
    assert daemon.observation.status("synthetic").requested.slo.target == 100.0
