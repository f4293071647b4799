"""A table of a database as the place of results: all of it or nothing, once, for the epoch that has the run."""

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from apps.contract import App
from compositions.errors import RecomposeError
from compositions.model import Stage, StageKind
from datapipe.sinks.port import Row
from service.runner.rpc.requests import PushMany, ReadResults, ReadStatus, Stop
from service.runner.runner import Runner
from service.runner.validation.durable import open_journal
from service.runner.wiring import sink as sink_writer
from service.schemas.spec import BatchingSpec, SinkSpec
from tests.support.waiting import wait_until

sqlalchemy = pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed; it is in extra sql")
from datapipe.sinks.sql import SqlSink  # noqa: E402 - it needs the library

PATIENCE_S = 30.0
Begin = Callable[..., Runner]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/results.db"


def rows(url: str) -> list[tuple[int, int, Any]]:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as db, suppress(sqlite3.OperationalError):
        return db.execute("SELECT serial, part, value FROM recompose_results").fetchall()
    return []


def numbered(first: int, until: int, value: str = "1") -> list[Row]:
    return [Row(serial, None, value, None) for serial in range(first, until)]


def test_tables_that_another_makes_at_the_same_time_are_taken_as_they_are(url: str) -> None:
    """PostgreSQL answers a second ``CREATE TABLE`` with an error that would be for good elsewhere."""
    sink = SqlSink(url, "r", 1)
    made: list[str] = []

    def first(statement: str) -> None:
        if statement.lstrip().startswith("CREATE TABLE") and not made:
            made.append(statement)
            other = SqlSink(url, "s", 1)
            other.begin(0, 0)
            other.close()
            raise sqlalchemy.exc.ProgrammingError(statement, {}, Exception("relation already exists"))

    sqlalchemy.event.listen(sink._engine, "before_cursor_execute", lambda *call: first(call[2]))
    assert sink.begin(0, 0) == 0
    assert len(made) == 1
    sink.close()


def test_rows_that_cannot_all_be_written_leave_none(url: str) -> None:
    sink = SqlSink(url, "r", 1)
    sink.begin(0, 0)
    with pytest.raises(RecomposeError, match="cannot be written: UNIQUE constraint failed"):
        sink.write(3, [*numbered(0, 3), *numbered(1, 2)])
    assert rows(url) == []
    assert SqlSink(url, "r", 2).begin(0, 0) == 0
    sink.close()


def test_a_password_in_the_query_is_in_no_sentence(tmp_path: Path) -> None:
    sink = SqlSink(f"sqlite:///file:{tmp_path}/none/x.db?uri=true&password=secret", "r", 1)
    with pytest.raises(OSError, match="cannot be written") as told:
        sink.begin(0, 0)
    assert "secret" not in str(told.value)
    sink.close()


def test_an_epoch_that_takes_over_locks_its_run_before_it_looks(url: str) -> None:
    """So that none that is frozen after its look forgets what a later one wrote."""
    first = SqlSink(url, "r", 1)
    first.begin(0, 0)
    said: list[str] = []
    sink = SqlSink(url, "r", 2)
    sqlalchemy.event.listen(sink._engine, "before_cursor_execute", lambda *call: said.append(call[2]))
    sink.begin(0, 0)
    words = [statement.split()[0] for statement in said if not statement.startswith("PRAGMA")]
    assert words == ["UPDATE", "SELECT", "UPDATE", "DELETE"]
    first.close()
    sink.close()


class Sums(App):
    name = "sums"
    stages = (Stage("add", StageKind.STATEFUL),)

    def add(self, value: int, state: int | None) -> tuple[int, int]:
        return (state or 0) + value, (state or 0) + value


@pytest.fixture
def start(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> Begin:
    monkeypatch.setattr(sink_writer, "AGAIN_S", 0.02)
    one_by_one = BatchingSpec(items=1)  # what waits holds up nothing before it
    return lambda epoch, to: begin(Sums, epoch, sink=SinkSpec(kind="sql", path=to), batching=one_by_one)


def test_a_table_that_is_locked_holds_the_stream_back_and_it_goes_on(start: Begin, url: str) -> None:
    runner = start(1, f"{url}?timeout=0.1")
    runner.ask(PushMany((0, 1)))
    wait_until(lambda: len(rows(url)) == 2)
    engine = sqlalchemy.create_engine(url, connect_args={"timeout": 0.1})
    with engine.connect() as other:
        other.exec_driver_sql("BEGIN EXCLUSIVE")
        runner.ask(PushMany((2, 3)))
        wait_until(lambda: "database is locked" in str(runner.ask(ReadStatus()).health.held_up))
        other.rollback()
    engine.dispose()
    wait_until(lambda: len(rows(url)) == 4)
    assert runner.ask(ReadStatus()).health.held_up is None
    runner.ask(Stop(drain=True, timeout_s=PATIENCE_S))


@pytest.mark.logs_errors("results could not be written to the sink")
def test_a_new_start_leaves_a_journal_whose_results_the_sink_never_got(
    start: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pushes themselves are out, and gone from it."""
    monkeypatch.setattr(sink_writer, "END_S", 0.1)
    away = f"sqlite:///{tmp_path}/away/results.db"
    first = start(1, away)
    first.ask(PushMany((0, 1, 2)))
    wait_until(lambda: len(first.ask(ReadResults(None, 10, "r"))) == 3)
    first.kill()
    assert journals_of_a_new_start(tmp_path, "n1") == ["n1", "r"]
    (tmp_path / "away").mkdir()
    second = start(2, away)
    wait_until(lambda: len(rows(away)) == 3)
    second.ask(Stop(drain=True, timeout_s=PATIENCE_S))
    assert journals_of_a_new_start(tmp_path, "n2") == ["n2"], "what the sink has is owed to nobody"


def journals_of_a_new_start(folder: Path, run: str) -> list[str]:
    open_journal(str(folder / "journals"), "sums", run, 1).close()
    return sorted(each.stem for each in (folder / "journals" / "sums").glob("*.journal"))
