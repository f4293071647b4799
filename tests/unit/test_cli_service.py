"""``start``, ``stop``, ``push``, ``results``, ``apps`` and ``logs``, on the real application; runs in threads."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_in_process import Invoke, invoking, told
from click.testing import CliRunner
from fastapi.testclient import TestClient
from structlog.testing import capture_logs

from apps.registry import discover
from service.api import create_app
from service.cli import main
from service.daemon.daemon import Daemon
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.runner_slot import LocalHost
from service.logs import Recent
from service.runner.runner import Runner
from service.schemas.spec import RunSpec


@pytest.fixture
def invoke(disk: DaemonStore, monkeypatch: pytest.MonkeyPatch, recent: Recent, tmp_path: Path) -> Iterator[Invoke]:
    base = RunSpec(app="", apps_dirs=(str(OWN_APPS),), pool="local", journals=str(tmp_path / "journals"))
    daemon = Daemon(discover([OWN_APPS]), LocalHost(Runner), disk, base)
    application = create_app(daemon, recent=recent)
    # What is logged would be between the lines that a command prints.
    with TestClient(application, base_url="http://127.0.0.1:8080") as http, capture_logs():
        yield invoking(http, monkeypatch)


OWN_APPS = Path(__file__).parents[2] / "docs" / "own-app"


@pytest.fixture
def recent() -> Recent:
    return Recent(most=3)


def rows(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_an_app_is_started_fed_read_and_stopped(invoke: Invoke) -> None:
    started = told(invoke("start", "readings", "--source", "push", "--slo", "p95=400ms", "-o", "unit=C"))
    assert started.startswith("readings: starting")
    lines = "\n".join(json.dumps({"celsius": each}) for each in range(450))
    assert told(invoke("push", "readings", input=lines)).startswith("450 items pushed, run ")
    assert told(invoke("push", "readings", "--value", '{"celsius": 31}')).startswith("1 item pushed")
    followed = rows(told(invoke("results", "readings", "--follow", "--limit", "451")))
    assert [row["serial"] for row in followed] == list(range(451))
    assert followed[-1]["value"] == {"celsius": 31.0, "alarms": 420}
    status = json.loads(told(invoke("status", "readings", "--json")))
    assert (status["slo"]["statistic"], status["slo"]["target"]) == ("p95", 400.0)
    assert "accepted 451, delivered 451" in told(invoke("stop", "readings"))
    after = rows(told(invoke("results", "readings", "--after", "448", "--run", followed[0]["run"], "--follow")))
    assert [row["serial"] for row in after] == [449, 450]


def test_a_topic_of_ones_own_is_read_and_outlives_the_runner(invoke: Invoke) -> None:
    """Of librdkafka's mock cluster."""
    kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed; it is in extra kafka")
    producer = kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none"})
    broker = next(iter(producer.list_topics(timeout=10).brokers.values()))
    for celsius in (21, 31):
        producer.produce("readings", json.dumps({"celsius": celsius}), partition=0)
    assert producer.flush(10) == 0
    topic = f"kafka://{broker.host}:{broker.port}/readings"
    told(invoke("start", "readings", "--source", topic, "--durability", "exactly-once"))
    followed = rows(told(invoke("results", "readings", "--follow", "--limit", "2")))
    assert [row["value"]["celsius"] for row in followed] == [21.0, 31.0]
    assert json.loads(told(invoke("status", "readings", "--json")))["durability"] == "exactly-once"
    told(invoke("stop", "readings"))


def test_what_the_service_refuses_is_a_sentence(invoke: Invoke) -> None:
    assert "readings is not running; start it with recompose start readings" in told(invoke("stop", "readings"), 1)
    assert "there is no app 'nothing'" in told(invoke("start", "nothing"), 1)
    assert "has no class of input 'huge'; it has none" in told(invoke("start", "readings", "--items", "huge"), 1)
    both = ("--rate", "1", "--pattern", "wave:period=60,min=1,max=10")
    assert "--rate and --pattern exclude each other" in told(invoke("start", "readings", *both), 2)
    told(invoke("start", "readings", "--source", "push"))
    refused = invoke("push", "readings", input='{"celsius": 1}\n{"celsius": "cold"}\n')
    assert "item 2 of 2: readings does not take this item" in told(refused, 1)
    assert "1 of these 2 items were accepted" in told(refused, 1)
    assert told(invoke("push", "readings", "--value", "7"), 1).endswith("; no items were accepted\n")
    assert "'x' is no JSON" in told(invoke("push", "readings", "--value", "x"), 2)
    assert "results 0 to" not in told(invoke("results", "readings"))


def test_logs_are_the_latest_lines_of_all_or_of_one_app(invoke: Invoke, recent: Recent) -> None:
    printed = {"by": "recompose-0a1b-readings w1", "line": "hello"}
    of_app, listening = {"app": "readings"}, {"port": 1}
    events = {"too old": {}, "app left out": of_app, "listening": listening, "printed": printed}
    for event, about in events.items():
        recent(None, "info", {"event": event, "level": "info", "at": "2026-11-22T10:00:00Z", **about})
    assert told(invoke("logs")).splitlines() == [
        "10:00:00 info    app left out app=readings",
        "10:00:00 info    listening port=1",
        "10:00:00 (recompose-0a1b-readings w1) hello",
    ]
    assert [line["id"] for line in rows(told(invoke("logs", "readings", "--json")))] == [2, 4]
    assert len(told(invoke("logs", "--limit", "1")).splitlines()) == 1
    assert "nothing" in told(invoke("logs", "nothing"), 1)


def test_a_new_app_passes_its_own_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = CliRunner().invoke(main, ["new", "word_count"])
    files = ["word_count.py", "word_count.yaml", "tests/test_word_count.py"]
    assert told(made).splitlines()[:3] == [f"word_count/{name}" for name in files]
    checked = CliRunner().invoke(main, ["check", "word_count/word_count.yaml", "--apps", "word_count"])
    assert "3 compositions" in told(checked)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "word_count/tests"]
    tested = subprocess.run(command, capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stdout
    assert "4 passed" in tested.stdout
    again = CliRunner().invoke(main, ["new", "word_count"])
    assert "'word_count/word_count.py' already exists; give another NAME" in told(again, 1)
    assert "must be lower-case letters" in told(CliRunner().invoke(main, ["new", "Word-Count"]), 2)


def test_names_of_apps_and_commands_are_completed() -> None:
    def completed(words: str, place: int) -> list[str]:
        asked = {"_RECOMPOSE_COMPLETE": "zsh_complete", "COMP_WORDS": words, "COMP_CWORD": str(place)}
        said = CliRunner().invoke(main, [], env=asked, prog_name="recompose").stdout.splitlines()
        return said[1::3]

    assert completed("recompose start fe", 2) == ["ferret"]
    assert completed("recompose sta", 1) == ["start", "status"]
