"""Apps of one's own: run and served on the command line, made, and what an author is told that is wrong."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from cli_in_process import Invoke, invoking, told
from click.testing import CliRunner
from fastapi.testclient import TestClient
from structlog.testing import capture_logs

from apps.registry import compositions_file, create, discover, find, scan
from compositions.document.loader import load
from compositions.errors import RecomposeError
from service import logs
from service.api import create_app
from service.cli import main, serve
from service.daemon.daemon import Daemon
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.runner_slot import LocalHost
from service.logs import Recent
from service.runner.runner import Runner
from service.schemas.spec import RunSpec

FOLDER = Path(__file__).parents[2] / "docs" / "own-app"
DATA = os.environ.get("RECOMPOSE_DATA")
HEAD = "from apps.contract import App, Options\nfrom compositions.model import Stage, StageKind\n\n"


@pytest.fixture
def invoke(disk: DaemonStore, monkeypatch: pytest.MonkeyPatch, recent: Recent, tmp_path: Path) -> Iterator[Invoke]:
    base = RunSpec(app="", apps_dirs=(str(FOLDER),), pool="local", journals=str(tmp_path / "journals"))
    daemon = Daemon(discover([FOLDER]), LocalHost(Runner), disk, base)
    application = create_app(daemon, recent=recent)
    # What is logged would be between the lines that a command prints.
    with TestClient(application, base_url="http://127.0.0.1:8080") as http, capture_logs():
        yield invoking(http, monkeypatch)


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
    assert "item 2 of 2: readings does not accept this item" in told(refused, 1)
    assert "1 of these 2 items were accepted" in told(refused, 1)
    assert told(invoke("push", "readings", "--value", "7"), 1).endswith("; no items were accepted\n")
    assert "'x' is not JSON" in told(invoke("push", "readings", "--value", "x"), 2)
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


# --- the examples of the reference for authors of apps, and what an author is told that is wrong -------------------


@pytest.fixture(autouse=True)
def logging_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "configure", lambda *_, **__: None)


def run(app: str, out: Path, *more: str) -> list[dict[str, Any]]:
    given = ["run", app, "--pool", "local", "--apps", str(FOLDER), "--out", str(out), *more]
    CliRunner().invoke(main, given)
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_options_items_and_results(tmp_path: Path) -> None:
    rows = run("readings", tmp_path / "out")
    assert [tuple(row["value"].values()) for row in rows] == [(21.5, 0), (30.5, 1), (28.0, 1), (31.0, 2)]
    warmer = run("readings", tmp_path / "out", "-o", "unit=F", "-o", "above=-2")
    assert [row["value"] for row in warmer][1:3] == [{"celsius": -0.8, "alarms": 1}, {"celsius": -2.2, "alarms": 1}]


def test_what_is_pushed_is_taken_or_refused_with_a_sentence() -> None:
    app = create("readings", {}, [FOLDER])
    assert app.from_json({"celsius": 21}) == 21.0
    with pytest.raises(ValueError, match="'21' is no reading; send"):
        app.from_json("21")
    with pytest.raises(RecomposeError, match=r"options\.above"):
        create("readings", {"above": -300}, [FOLDER])


def test_prepare_setup_and_an_item_that_fails(tmp_path: Path) -> None:
    letters = tmp_path / "letters"
    rows = run("dictionary", tmp_path / "out", "--dead-letters", str(letters))
    assert [row.get("value") for row in rows] == ["eins", "zwei", None]
    assert json.loads(letters.read_text())["serial"] == 2
    assert "KeyError: 'three'" in letters.read_text()


def test_stages_that_drop_multiply_wait_and_take_bundles(tmp_path: Path) -> None:
    rows = run("prices", tmp_path / "out")
    assert rows == [{"serial": 0, "part": 0, "value": {"word": "coffee", "price": 15.0}}]


NATURAL = """
class O(Options):
    times: int = 1
class Natural(App):
    name, stages, options_model = "natural", (Stage("f"),), O
    def __init__(self):
        {}
        self.twice = 2 * self.options.times
    def f(self, value):
        return value * self.twice
"""


def repeats(tmp_path: Path, *lines: str) -> list[str | None]:
    """Which line before each one nearly repeats."""
    (tmp_path / "log.txt").write_text("\n".join(lines))
    rows = run("repeats", tmp_path / "out", "--source", f"replay:{tmp_path / 'log.txt'}")
    assert [row["value"]["line"] for row in rows] == list(lines)
    return [row["value"]["repeats"] for row in rows]


def test_near_repeats_are_found_and_others_are_not(tmp_path: Path) -> None:
    fox, other = "The quick brown fox jumps over the lazy dog near the river", "An entirely different sentence"
    again = fox.lower().replace("the river", "the  river")
    assert repeats(tmp_path, fox, other, again, other) == [None, None, fox, other]


def test_only_the_fifty_lines_before_count(tmp_path: Path) -> None:
    others = [f"{chr(97 + k % 26) * 40}{chr(97 + k // 26) * 40}" for k in range(50)]
    first = "A line to be seen again much later in this stream of lines"
    assert repeats(tmp_path, first, *others, first)[-1] is None
    assert repeats(tmp_path, first, *others[1:], first)[-1] == first


def test_without_a_file_it_reads_its_own_and_its_compositions_load(tmp_path: Path) -> None:
    assert "class Repeats(App):" in [row["value"]["line"] for row in run("repeats", tmp_path / "out")]
    found = find("repeats", [FOLDER])
    listed = load(compositions_file(found).read_text(), {"repeats": found.stages}).compositions
    assert {each.name: each.workers for each in listed} == {"sequential": 3, "merged": 1, "parallel": 3, "wide": 6}


@pytest.mark.parametrize("calls_super", [False, True])
def test_an_init_of_self_alone_finds_its_options(tmp_path: Path, calls_super: bool) -> None:
    (tmp_path / "natural.py").write_text(HEAD + NATURAL.format("super().__init__()" if calls_super else "pass"))
    app = create("natural", {"times": 3}, [tmp_path])
    assert getattr(app, "f")(1) == 6  # noqa: B009 - the class is the file's


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("async def f(self, value):\n        yield value", "stage 'f' is an async generator, which cannot be called"),
        ("def __init__(self, a, b): ...\n    def f(self, value): ...", "__init__ must take (self) or (self, options)"),
    ],
)
def test_what_cannot_work_is_refused_by_name_when_it_is_loaded(tmp_path: Path, body: str, fault: str) -> None:
    (tmp_path / "x.py").write_text(HEAD + f"class X(App):\n    name = 'x'\n    stages = (Stage('f'),)\n    {body}\n")
    found = scan([tmp_path])
    assert "x" not in found.apps
    assert any(fault in each.message for each in found.faults)


@pytest.fixture
def some_are_broken(tmp_path: Path) -> Path:
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
    for name in ("good", "bad"):
        body = f"class A(App):\n    name, stages = '{name}', (Stage('f'),)\n    def f(self, value): ...\n"
        (tmp_path / f"{name}.py").write_text(HEAD + body)
    (tmp_path / "bad.yaml").write_bytes(b"app: bad\ncompositions: \xff")
    return tmp_path


def test_run_names_the_broken_compositions_beside_an_app(some_are_broken: Path) -> None:
    file = some_are_broken / "good.yaml"
    file.write_text("app: good\ncompositions: [{name: a, notation: Seq(fisrt)}]\n")
    done = CliRunner().invoke(main, ["run", "good", "--pool", "local", "--apps", str(some_are_broken)])
    assert done.exit_code == 1
    assert f"{file}: compositions[0].notation: unknown stage 'fisrt'" in done.output


def test_serve_names_what_is_broken_and_takes_the_others(some_are_broken: Path) -> None:
    with capture_logs() as told:
        apps = serve.discover([some_are_broken])
    assert "good" in apps
    assert not {"bad", "broken"} & apps.keys()
    places = {Path(each["place"]).name for each in told if each["event"] == "app left out"}
    assert {"broken.py", "bad.yaml"} <= places


def test_visits_of_a_log_by_event_time(tmp_path: Path) -> None:
    """An event out of order, one too late, and visits that only a tick or the end of the log can close."""
    rows = run("visits", tmp_path / "out")
    assert [(row["serial"], row["value"]["address"][-1], *list(row["value"].values())[1:]) for row in rows] == [
        (3, "2", 1431857100.0, 1),
        (3, "1", 1431856800.0, 2),
        (4, "2", 1431857160.0),
        (5, "1", 1431859800.0, 1),
    ]


def test_what_the_page_on_event_time_shows_is_what_runs() -> None:
    page, app = (FOLDER.parent / "guide" / "event-time.md").read_text(), (FOLDER / "visits.py").read_text()
    flat = [line.strip() for line in app.splitlines() if line.strip()]
    shown = [block.split("```")[0] for block in page.split("```python\n")[1:]]
    assert len(shown) == 3
    for line in "".join(shown).splitlines():
        assert not line.strip() or line.strip() in flat


VISITS_SQL = """
with lines as (select regexp_extract(line, '^(\\S+)', 1) address,
                      epoch(strptime(regexp_extract(line, '\\[([^\\]]+) ', 1), '%d/%b/%Y:%H:%M:%S')) as t
               from (select unnest(string_split(rtrim(content, chr(10)), chr(10))) line from read_text(?))),
     marked as (select *, coalesce(t - lag(t) over (partition by address order by t) > 1800, true) as new
                from lines),
     numbered as (select *, sum(new::int) over (partition by address order by t rows unbounded preceding) as n
                  from marked)
select address, min(t), count(*) from numbered group by address, n order by all"""


@pytest.mark.skipif(not DATA, reason="RECOMPOSE_DATA is not set: there is no real access log")
def test_visits_of_a_real_log_are_those_that_duckdb_finds(tmp_path: Path) -> None:
    log = Path(DATA or "") / "clicks" / "apache_access_10k.log"
    rows = [row["value"] for row in run("visits", tmp_path / "out", "--source", f"replay:{log}")]
    with duckdb.connect() as database:
        found = database.execute(VISITS_SQL, [str(log)]).fetchall()
    assert len(found) > 2000
    assert sorted((row["address"], row["from_s"], row["requests"]) for row in rows) == found
