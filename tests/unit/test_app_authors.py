"""The examples of the reference for authors of apps, run; and what an author is told that is wrong."""

import json
import os
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner
from structlog.testing import capture_logs

from apps.registry import compositions_file, create, find, scan
from compositions.document.loader import load
from compositions.errors import RecomposeError
from service import logs
from service.cli import main
from service.cli.serve import discover

FOLDER = Path(__file__).parents[2] / "docs" / "own-app"
DATA = os.environ.get("RECOMPOSE_DATA")
HEAD = "from apps.contract import App, Options\nfrom compositions.model import Stage, StageKind\n\n"


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
        apps = discover([some_are_broken])
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
