"""Check what survives a restart, what does not happen to the file, and a backup of a service that runs."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from compositions.batch_settings import BatchSettings, Gains
from compositions.batching import Batching, SizeControl
from compositions.errors import RecomposeError
from compositions.model import Composition, Group, Pattern
from control.decisions import Mode, Trigger
from profiler.slo import Slo, parse_slo
from runtime.dispatch.checkpoint import Checkpoint
from service.cli.backup import copied
from service.cli.main import main
from service.daemon.store import store as store_module
from service.daemon.store.store import DaemonStore, Started
from service.runner.durable.journal import Journal
from service.runner.durable.values import Commit, Pushed
from service.schemas.compositions import SizeChange
from service.schemas.decisions import Decision, QuietRun
from service.schemas.refusals import DiskFullError, NotStoredError
from service.schemas.spec import InputSpec, RunSpec, SourceSpec, TelemetrySpec
from tests.support.fakes import decision as made_decision

DECISION = made_decision(1, Trigger.START, "1", "2", None)
WIDE = Composition("wide", (Group(("a", "b"), Pattern.PAR, 3), Group(("c",))), Batching(64, linger_ms=2.5))
STEERED = replace(WIDE, batch=Batching(control=SizeControl("pid", BatchSettings(gains=Gains(kp=20.0)))))
SPEC = RunSpec(
    app="words", options={"depth": [1, {"k": None}]}, compositions=(WIDE,), composition="wide", mode=Mode.PINNED,
    source=SourceSpec(kind="push"), input=InputSpec(pattern="wave", period_s=3, min_per_s=1, max_per_s=2),
)  # fmt: skip


def decision(number: int, gap_ms: float | None = None) -> Decision:
    return DECISION.model_copy(update={"id": number, "gap_ms": gap_ms})


def test_a_second_daemon_reads_what_the_first_wrote(tmp_path: Path) -> None:
    first = DaemonStore(tmp_path / "new" / "folder")
    stored = first.put_slo("words", Slo("latency", 400.0, 0.1, "p95"))
    first.put_started("words", Started(SPEC, 17))
    overlay = {"wide": WIDE, "gone": None, "steered": STEERED}
    first.put_overlay("words", overlay)
    first.put_decisions("words", [decision(1), decision(2)])
    first.quiet_runs.put("words", [QuietRun(reason="met", first_at="a", last_at="b", count=3)])
    first.close()

    second = DaemonStore(tmp_path / "new" / "folder")
    assert second.instance == first.instance
    assert second.slo("words") == stored
    assert second.started() == {"words": Started(SPEC, 17)}
    assert second.overlay("words") == overlay
    assert [each.id for each in second.decisions("words", 10)] == [2, 1]
    assert second.quiet_runs.latest("words", 10) == [QuietRun(reason="met", first_at="a", last_at="b", count=3)]
    second.close()


def test_a_decision_whose_outcome_comes_later_is_replaced_not_doubled(disk: DaemonStore) -> None:
    disk.put_decisions("words", [decision(1), decision(2)])
    disk.put_decisions("words", [decision(2, gap_ms=41.0)])
    assert disk.decisions("words", 10) == [decision(2, gap_ms=41.0), decision(1)]
    assert disk.last_decision_id("words") == 2
    assert disk.last_decision_id("other") == 0


def test_history_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "HISTORY_LIMIT", 5)
    store = DaemonStore(None)
    for number in range(1, 21):
        store.put_decisions("words", [decision(number)])
        store.quiet_runs.put("words", [QuietRun(first_at=f"{number:02}", last_at="", reason="", count=1)])
    store.put_decisions("other", [decision(1)])
    assert [each.id for each in store.decisions("words", 100)] == [20, 19, 18, 17, 16]
    assert [each.first_at for each in store.quiet_runs.latest("words", 100)] == ["20", "19", "18", "17", "16"]
    assert len(store.decisions("other", 100)) == 1
    store.close()


def refused(folder: Path, sentence: str) -> None:
    with pytest.raises(RecomposeError, match=sentence):
        DaemonStore(folder)


def test_what_cannot_be_used_is_refused_in_a_sentence(tmp_path: Path) -> None:
    first, file = DaemonStore(tmp_path), tmp_path / "recompose.sqlite"
    refused(tmp_path, "is in use by another recompose; give --state DIR")
    first.close()
    DaemonStore(tmp_path).close()
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA user_version = 99")
    refused(tmp_path, "has schema version 99; this version reads up to 1")
    file.write_bytes(b"not a database at all, but long enough to have a header " * 10)
    refused(tmp_path, "is not a readable state file")
    refused(file / "state", "cannot be used: Not a directory")


def test_the_state_file_of_the_first_release_is_read_unchanged(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "recompose.sqlite")) as db:
        db.executescript(Path(__file__).with_name("state_of_0_1_0.sql").read_text(encoding="utf-8"))
    store = DaemonStore(tmp_path)
    assert store.instance == "89c8eddc7378"
    assert [(each.id, each.app, each.slo) for each in store.slos()] == [
        (2, "synthetic", Slo("throughput", "input_rate")),
        (1, "words", Slo("latency", 400.0, 0.1, "p95")),
    ]
    wide = Composition("wide", (Group(("f1", "f2"), Pattern.PAR, 3), Group(("f3",))))
    started = store.started()["synthetic"]
    assert started.first_decision == 17
    assert (started.spec.compositions, started.spec.composition, started.spec.mode) == ((wide,), "wide", Mode.PINNED)
    assert (started.spec.source.kind, started.spec.input) == ("push", SPEC.input)
    assert started.spec.ending.telemetry == TelemetrySpec(folder="/telemetry")
    assert store.overlay("synthetic") == {"wide": wide, "3": None}
    assert [each.to for each in store.decisions("synthetic", 10)] == ["1"]
    assert [each.count for each in store.quiet_runs.latest("synthetic", 10)] == [3]
    assert store.put_slo("words", Slo("latency", 1.0)).id == 3
    for count in (1, 2):
        known = {"controller": "pid", "from": 1, "to": 8, "least": 1, "most": 9, "reason": "", "first_at": "t1"}
        change = SizeChange.model_validate({**known, "last_at": f"t{count}", "count": count})
        store.size_changes.put("words", [change])
    assert store.size_changes.latest("words", 10) == [change], "one that goes on stays one"
    assert store.size_changes.latest("synthetic", 10) == []
    store.close()


def test_what_does_not_fit_on_the_disk_is_refused_leaves_what_was_and_is_told_from_other_faults(tmp_path: Path) -> None:
    """SQLite's own limit of pages: the real error, not one made for the test."""
    store = DaemonStore(tmp_path)
    before = store.put_slo("words", Slo("latency", 400.0))
    db = store._database._db
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(DiskFullError, match=r"the disk of .* is full: nothing was changed; free some and try again"):
        store.put_decisions("words", [decision(number) for number in range(1, 100)])
    assert store.decisions("words", 10) == []
    assert store.slo("words") == before
    db.execute("PRAGMA max_page_count = 1000")
    store.put_decisions("words", [decision(1)])
    db.execute("PRAGMA query_only = 1")
    with pytest.raises(NotStoredError, match=r"cannot be written \(attempt to write a readonly database\)") as raised:
        store.put_slo("words", Slo("latency", 400.0))
    assert not isinstance(raised.value, DiskFullError)
    store.close()


def test_a_state_folder_is_its_owners_alone_whatever_the_umask_also_where_it_was_open_before(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    (folder / "telemetry" / "items").mkdir(parents=True)
    for name in ("recompose.sqlite", "lock", "telemetry/items/old.parquet", "notes.txt"):
        (folder / name).touch()
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    before = os.umask(0)
    try:
        stores = [DaemonStore(each) for each in (folder, tmp_path / "new")]
        for store in stores:
            store.put_slo("words", Slo("latency", 400.0))
    finally:
        os.umask(before)
    modes = {path.relative_to(tmp_path).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert {"state/recompose.sqlite-wal", "state/recompose.sqlite-shm", "new/recompose.sqlite"} <= modes.keys()
    assert modes.pop("state/notes.txt") == 0o644
    assert modes["state"] == modes["new"] == 0o700
    assert {name for name, mode in modes.items() if mode & 0o077} == set()
    for store in stores:
        store.close()


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


def test_a_backup_overwrites_nothing_needs_a_state_and_is_complete(state: Path, tmp_path: Path) -> None:
    with pytest.raises(RecomposeError, match=r"state exists; a backup goes into a new folder"):
        copied(state, state)
    with pytest.raises(RecomposeError, match=r"has no recompose.sqlite; give the state directory"):
        copied(tmp_path, tmp_path / "copy")
    assert copied(state, tmp_path / "without", telemetry=False) == 1
    assert not (tmp_path / "without" / "telemetry").exists()
    (state / "journals" / "ferret" / "s.journal").write_bytes(b"no database, but long enough to be read as one" * 99)
    with pytest.raises(RecomposeError, match=r"copy is not a complete backup: file is not a database"):
        copied(state, tmp_path / "copy")
