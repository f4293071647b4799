"""``recompose serve --config``: what a file may say, what is refused, and what becomes of a change."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from structlog.testing import capture_logs

from profiler.budget import Budget
from profiler.slo import parse_slo, together
from service.cli.configured import ConfigRefused, Configured, ServiceConfig, configured, options_of, read_config
from service.cli.serve import serve
from service.daemon.daemon import Daemon
from service.daemon.store.store import DaemonStore
from tests.support.fakes import fake_daemon
from tests.support.waiting import wait_until

GOOD = """
service: {port: 9090, apps: [own], state: here, telemetry: false}
apps:
  synthetic:
    source: push
    input: {rate_per_s: 10}
    slo: [p95<=400ms, throughput=input_rate]
    budget: {workers: 4}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "own").mkdir()
    (tmp_path / "service.yaml").write_text(GOOD)
    return tmp_path / "service.yaml"


@pytest.fixture
def daemon(disk: DaemonStore) -> Iterator[Daemon]:
    made = fake_daemon(disk, ("synthetic", "ferret"))
    yield made
    made.close(drain=False)


def config(text: str, folder: Path) -> ServiceConfig:
    (folder / "changed.yaml").write_text(text)
    return read_config(folder / "changed.yaml")


# --- what it may say --------------------------------------------------------------------------------------------------


def test_it_says_how_to_serve_and_what_to_run(file: Path) -> None:
    read = read_config(file)
    app = read.apps["synthetic"]
    assert app.objective == together([parse_slo("p95<=400ms"), parse_slo("throughput=input_rate")], Budget(workers=4))
    assert app.spec("synthetic").source.kind == "push"
    folder = file.parent
    expected = {"port": 9090, "apps_dirs": [f"{folder}/own"], "state_dir": f"{folder}/here", "telemetry": False}
    assert options_of(read.service, folder) == expected


def test_options_on_the_command_line_win(file: Path) -> None:
    with click.Context(serve) as context:
        serve.parse_args(context, ["--config", str(file), "--port", "7070"])
    assert context.params["port"] == 7070
    assert context.params["apps_dirs"] == (file.parent / "own",)
    assert context.params["telemetry"] is False


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("apps: {x: {slo: p95<=fast}}", "apps.x.slo: 'p95<=fast' is not accepted: .*'fast' is not a number with a"),
        ("apps: {x: {rate: 3}}", "apps.x.rate: is not known here"),
        ("apps: {x: {input: {rate_per_s: -1}}}", "apps.x.input.rate_per_s: -1 is not accepted: .* greater than 0"),
        ("apps: {x: {source: fax}}", r"apps.x.source.kind: is not accepted: .*'replay'"),
        ("apps: {x: {source: kafka}}", r"apps.x.source: source kafka needs a path, such as kafka://HOST:9092/TOPIC"),
        ("apps: {x: {budget: {workers: 3}}}", "apps.x: .*a budget needs an objective"),
        ("service: {port: 99999}", "service.port: 99999 is not accepted: .* less than or equal to 65535"),
        ("service: {prot: 1}", "service.prot: is not known here"),
        ("a: [", "line 2, column 1: not YAML"),
        ("apps: {x: {}, x: {}}", "apps.x: the key is given twice"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigRefused, match=sentence):
        config(text, tmp_path)


@pytest.mark.parametrize(
    "entry",
    [
        "sink: [postgresql://u:S3CRET@h/db]",
        "sink: postgresql://u:S3CRET@h/db",
        "sink: {kind: sql, path: [postgresql://u:S3CRET@h/db]}",
        "source: redis://:S3CRET@h:6379/0",
        "source: {kind: kafka, path: h, options: {sasl.password: [S3CRET]}}",
        "[{sink: {path: S3CRET}}]",
    ],
)
def test_what_may_carry_a_password_is_not_shown(entry: str, tmp_path: Path) -> None:
    text = f"apps: {{x: {entry}}}" if entry.startswith("[") else f"apps: {{x: {{{entry}}}}}"
    with pytest.raises(ConfigRefused) as told:
        config(text, tmp_path)
    assert "is not accepted" in str(told.value)
    assert "S3CRET" not in str(told.value)


def test_every_fault_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigRefused) as told:
        config("service: {port: x}\napps: {a: {mode: fast}, b: {items: 0}}", tmp_path)
    assert [fault.path for fault in told.value.faults] == ["service.port", "apps.a.mode", "apps.b.items"]


def test_an_app_that_there_is_not_ends_the_start(tmp_path: Path, daemon: Daemon) -> None:
    (tmp_path / "x.yaml").write_text("apps: {nothing: {}}")
    told = pytest.raises(ConfigRefused, match=r"apps\.nothing: there is no app 'nothing'; registered are .*synthetic")
    with told, configured(tmp_path / "x.yaml", daemon):
        raise AssertionError("not reached")


# --- what becomes of it -----------------------------------------------------------------------------------------------


def test_apps_are_started_changed_and_stopped(tmp_path: Path, daemon: Daemon) -> None:
    state = Configured(daemon)

    def holds(text: str) -> str | None:
        """The run that goes on then; with an entry that stays as it was, nothing is done."""
        state.bring_about(config(text, tmp_path))
        return daemon.observation.status("synthetic").origin.run

    first = holds("apps: {synthetic: {input: {rate_per_s: 10}, slo: latency=400ms}}")
    assert daemon.objectives.of("synthetic").target == 400.0
    assert holds("apps: {synthetic: {input: {rate_per_s: 20}, slo: latency=400ms}}") == first
    running = daemon.apps.running_spec("synthetic")
    assert running.input.rate_per_s == 20
    assert holds("apps: {synthetic: {input: {rate_per_s: 20}, batching: {items: 8}}}") == first
    assert daemon.objectives.all() == []
    assert holds("apps: {synthetic: {input: {rate_per_s: 20}, options: {total_ms: 5}}}") != first
    daemon.apps.stop("synthetic")
    holds("apps: {synthetic: {input: {rate_per_s: 20}, options: {total_ms: 5}}, ferret: {source: push}}")
    assert daemon.apps.running_spec("synthetic") is None, "its entry is as it was: who stopped it meant it"
    holds("apps: {}")
    assert daemon.apps.running_spec("ferret") is None


def test_what_is_refused_is_told_and_tried_again_with_the_next_change(tmp_path: Path, daemon: Daemon) -> None:
    state = Configured(daemon)
    budget = "budget: {workers: 8, apps: {nobody: {floor: 1}}}"
    text = f"{budget}\napps: {{synthetic: {{options: {{nope: 1}}}}, ferret: {{source: push}}}}"
    with capture_logs() as logs:
        state.bring_about(config(text, tmp_path))
    budget, app = [line["reason"] for line in logs if line["event"] == "not as the configuration says"]
    assert "there is no app 'nobody'" in budget
    assert "options.nope: unknown option" in app
    assert daemon.apps.running_spec("ferret") is not None
    state.bring_about(config("apps: {synthetic: {}, ferret: {source: push}}", tmp_path))
    assert daemon.apps.running_spec("synthetic") is not None


def test_a_change_of_the_file_is_noticed_and_a_broken_one_changes_nothing(file: Path, daemon: Daemon) -> None:
    """As editors write: a new file in the place of the old one."""
    daemon.restore()

    def replaced(text: str) -> None:
        (file.parent / "new").write_text(text)
        (file.parent / "new").replace(file)

    with capture_logs() as logs, configured(file, daemon):
        wait_until(lambda: daemon.apps.running_spec("synthetic") is not None)
        replaced("apps: {synthetic: [}")
        wait_until(lambda: any(line["event"] == "configuration refused" for line in logs))
        assert daemon.apps.running_spec("synthetic") is not None
        replaced("apps: {}")
        wait_until(lambda: daemon.apps.running_spec("synthetic") is None)


def test_it_sets_what_all_apps_may_spend_or_leaves_that_alone(daemon: Daemon, tmp_path: Path) -> None:
    state = Configured(daemon)
    first = "budget: {workers: 8, apps: {ferret: {floor: 2}}}"
    for text, workers in ((first, 8), ("apps: {}", 8), ("budget: {workers: 6}", 6)):
        state.bring_about(config(text, tmp_path))
        assert daemon.machine.shares().workers == workers
