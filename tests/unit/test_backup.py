"""A backup of a service that runs: what was stored is in the copy, and the service goes on."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from compositions.errors import RecomposeError
from profiler.slo import parse_slo
from runtime.dispatch.checkpoint import Checkpoint
from service.cli.backup import copied
from service.cli.main import main
from service.daemon.store.store import DaemonStore
from service.runner.durable.journal import Journal
from service.runner.durable.values import Commit, Pushed


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """A state directory with an open state file and an open journal."""
    folder = tmp_path / "state"
    store = DaemonStore(folder)
    store.put_slo("ferret", parse_slo("p95=400ms"))
    (folder / "journals" / "ferret").mkdir(parents=True)
    journal = Journal(folder / "journals" / "ferret" / "r.journal", "r", 1)
    journal.store(Commit(Checkpoint(1), {}, ()), [Pushed(0, ("a", "b"))])
    (folder / "telemetry" / "items").mkdir(parents=True)
    (folder / "telemetry" / "items" / "1.parquet").write_bytes(b"rows")
    (folder / "telemetry" / "items" / ".2.parquet").write_bytes(b"half of the r")
    yield folder
    journal.store(None, [Pushed(2, ("c",))])
    journal.close()
    store.close()


def test_what_is_stored_while_the_service_runs_is_in_the_copy(state: Path, tmp_path: Path) -> None:
    told = CliRunner().invoke(main, ["backup", str(tmp_path / "copy"), "--state", str(state)])
    assert told.exit_code == 0, told.output
    assert "1 journals" in told.output
    restored = DaemonStore(tmp_path / "copy")
    assert [(each.app, each.slo.target) for each in restored.slos()] == [("ferret", 400.0)]
    restored.close()
    journal = Journal(tmp_path / "copy" / "journals" / "ferret" / "r.journal", "r", 2)
    assert (journal.found.undelivered, journal.found.accepted) == (["b"], 2)
    journal.close()
    files = {file.name for file in (tmp_path / "copy" / "telemetry").rglob("*") if file.is_file()}
    assert files == {"1.parquet"}
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o700


def test_a_backup_may_leave_out_telemetry(state: Path, tmp_path: Path) -> None:
    assert copied(state, tmp_path / "copy", telemetry=False) == 1
    assert not (tmp_path / "copy" / "telemetry").exists()


def test_a_backup_overwrites_nothing_and_needs_a_state(state: Path, tmp_path: Path) -> None:
    with pytest.raises(RecomposeError, match=r"state exists; a backup goes into a new folder"):
        copied(state, state)
    with pytest.raises(RecomposeError, match=r"has no recompose.sqlite; give the state directory"):
        copied(tmp_path, tmp_path / "copy")


def test_a_file_that_is_no_database_makes_no_complete_backup(state: Path, tmp_path: Path) -> None:
    (state / "journals" / "ferret" / "s.journal").write_bytes(b"no database, but long enough to be read as one" * 99)
    with pytest.raises(RecomposeError, match=r"copy is no complete backup: file is not a database"):
        copied(state, tmp_path / "copy")
