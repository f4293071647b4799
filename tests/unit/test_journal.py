"""Check what a journal keeps, and what it says when it cannot."""

import pickle
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.event_time.windowing import Reading
from compositions.errors import NotNow, RecomposeError
from datapipe.sources.folder import Done
from runtime.dispatch.checkpoint import Checkpoint
from service.runner.durable import journal_file, keyed
from service.runner.durable.journal import KEPT_RESULTS, Journal
from service.runner.durable.journal_file import VERSION, Fenced
from service.runner.durable.values import Commit, Left, Pushed, sealed, unsealed
from service.runner.validation.durable import SUFFIX, open_journal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.journal"


def left(first: int, *values: object) -> tuple[Left, ...]:
    return (Left(first, list(values), None, 1),)


def keep(path: Path, *commits: Commit, pushed: Sequence[Pushed] = (), epoch: int = 1) -> None:
    with closing(Journal(path, "r", epoch)) as journal:
        if pushed:
            journal.store(None, pushed)
        for each in commits:
            journal.store(each)


def change(path: Path, *statements: str, **values: Any) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        for each in statements:
            assert db.execute(each, values).rowcount in (1, -1)


def flip(path: Path, at: int, bit: int = 0b100) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= bit
    path.write_bytes(content)


def test_another_epoch_finds_what_was_stored(path: Path) -> None:
    commit = Commit(Checkpoint(2, 0, 1, {"sum": 6}), {"items": (0, 3)}, left(0, 1, 2))
    keep(path, commit, pushed=[Pushed(0, (1, 2)), Pushed(2, (b"3", 4))])
    found = Journal(path, "r", 2).found
    assert found.checkpoint == Checkpoint(2, 0, 1, {"sum": 6})
    assert (found.positions, found.left) == ({"items": (0, 3)}, left(0, 1, 2))
    assert (found.undelivered, found.accepted) == ([4], 4), "what is out is not taken again"


def test_only_what_is_out_and_old_is_forgotten(path: Path) -> None:
    journal = Journal(path, "r", 1)
    for first in range(0, 3 * KEPT_RESULTS, 100):
        commit = Commit(Checkpoint(first + 100), {}, left(first, *range(first, first + 100)))
        journal.store(commit, [Pushed(first, tuple(range(first, first + 100)))])
    journal.close()
    found = Journal(path, "r", 2).found
    assert [each.first for each in found.left] == list(range(2 * KEPT_RESULTS, 3 * KEPT_RESULTS, 100))
    assert found.undelivered == []


def test_who_was_followed_writes_nothing_any_more(path: Path) -> None:
    old = Journal(path, "r", 1)
    old.store(None, [Pushed(0, ("before",))])
    new = Journal(path, "r", 2)
    with pytest.raises(Fenced, match="runner 2 has taken over run r; runner 1 may not write any more"):
        old.store(Commit(Checkpoint(1)), [Pushed(1, ("after",))])
    with pytest.raises(Fenced, match="runner 2 has taken over"):
        Journal(path, "r", 1)
    new.store(None, [Pushed(1, ("mine",))])
    assert Journal(path, "r", 3).found.undelivered == ["before", "mine"]


@pytest.mark.parametrize("text", [b"CREATE TABLE holder (", b"a stage"])
def test_a_text_that_is_no_utf_8_any_more_is_told_and_nothing_is_written(path: Path, text: bytes) -> None:
    """Any other bit: tests/property/test_flipped_bits.py."""
    keep(path, Commit(Checkpoint(1, keyed={"a stage": {0: {"a": b"1"}}})))
    flip(path, path.read_bytes().rindex(text) + len(text) - 1, 0x80)
    content = path.read_bytes()
    with pytest.raises(RecomposeError, match=r"is damaged \(.*can't decode byte.*\); nothing was changed, move it and"):
        Journal(path, "r", 2)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (f"PRAGMA user_version = {VERSION + 1}", f"has version {VERSION + 1}; this version reads up to {VERSION}"),
        ("PRAGMA user_version = 0", "its tables are not those of a journal"),
        ("PRAGMA user_version = 2", "its tables are not those of a journal"),
        ("CREATE TABLE mine (a)", "its tables are not those of a journal"),
        ("UPDATE pushed SET count = 4 WHERE first = 2", "the serial numbers of a record do not match"),
        ("UPDATE pushed SET first = 3 WHERE first = 2", "the serial numbers of a record do not match"),
        ("UPDATE result SET count = 5", "the serial numbers of a record do not match"),
        ("UPDATE result SET first = 8", "the serial numbers of a record do not match"),
        ("UPDATE state SET stage = 'sun'", "the stored states do not match"),
        ("UPDATE keyed_log SET stage = 'totam' WHERE number = 1", "the stored states do not match"),
        ("UPDATE keyed_log SET number = 5 WHERE number = 0", "the stored states do not match"),
        ("DELETE FROM keyed_log WHERE number = 1", "the stored states do not match"),
    ],
)
def test_a_journal_that_was_changed_is_left_alone(path: Path, changed: str, why: str) -> None:
    """Serial numbers say which records may go: items that wait would go with them."""
    states = [{"states": {"sum": serial}, "keyed": {"total": {0: {"a": b"%d" % serial}}}} for serial in range(2)]
    commits = [Commit(Checkpoint(serial + 1, **each)) for serial, each in enumerate(states)]
    commits[0] = replace(commits[0], left=left(0, "A"))
    keep(path, *commits, pushed=[Pushed(0, ("a", "b")), Pushed(2, ("a", "b"))])
    change(path, changed)
    before = path.read_bytes()
    with pytest.raises(RecomposeError, match=why):
        Journal(path, "r", 2)
    assert path.read_bytes() == before


def test_a_value_that_cannot_be_written_is_no_damage(path: Path) -> None:
    class Unwritten:
        def __reduce__(self) -> tuple[Any, ...]:
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    journal = Journal(path, "r", 1)
    with pytest.raises(UnicodeDecodeError):
        journal.store(Commit(Checkpoint(1, states={"sum": Unwritten()})))
    journal.store(Commit(Checkpoint(1, states={"sum": 1})))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(RecomposeError, match=r"journal folder .*taken/app cannot be written: Not a directory"):
        open_journal(str(tmp_path / "taken"), "app", "r", 1)


def test_a_new_run_sweeps_up_but_what_was_never_delivered(tmp_path: Path) -> None:
    done, owing = (open_journal(str(tmp_path), "app", run, 2) for run in ("done", "owing"))
    for journal in (done, owing):
        journal.store(None, [Pushed(0, (1,))])
    done.store(Commit(Checkpoint(1)))
    for journal in (done, owing):
        journal.close()
    open_journal(str(tmp_path), "app", "new", 1).close()
    assert sorted(each.name for each in (tmp_path / "app").glob(f"*{SUFFIX}")) == [f"new{SUFFIX}", f"owing{SUFFIX}"]


@pytest.mark.parametrize("how", ["later", "page", "log", "text", "folder"])
def test_a_new_run_sweeps_up_nothing_that_could_not_be_gone_on_with(tmp_path: Path, how: str) -> None:
    """Its owner was told to use a later version, or to move it away."""
    journal = open_journal(str(tmp_path), "app", "old", 2)
    journal.store(Commit(Checkpoint(3, states={"sum": b"x" * 9000})))
    path = tmp_path / "app" / f"old{SUFFIX}"
    if how == "log":
        left = {each: each.read_bytes() for each in path.parent.iterdir()}
    journal.close()
    if how == "log":
        for each, content in left.items():
            each.write_bytes(content)
        flip(path.with_name(f"{path.name}-wal"), -1, 1)
    elif how == "page":
        flip(path, path.read_bytes().rindex(b"x" * 100) // 4096 * 4096)
    elif how == "text":  # of SQLite's, which cannot be decoded for the error's sentence
        flip(path, path.read_bytes().index(b"CREATE TABLE holder") + len("CREATE TABLE holder "), 0x80)
    elif how == "folder":  # the log cannot be read, also not by root
        path.with_name(f"{path.name}-wal").mkdir()
    else:
        change(path, f"PRAGMA user_version = {VERSION + 1}")
    before = {each.name: each.read_bytes() for each in path.parent.iterdir() if each.is_file()}
    open_journal(str(tmp_path), "app", "new", 1).close()
    after = {each.name: each.read_bytes() for each in path.parent.iterdir() if each.is_file()}
    assert {name: after.get(name) for name in before} == before


def test_a_journal_from_before_it_was_stored_how_far_the_sink_is_goes_on_and_is_swept_up(tmp_path: Path) -> None:
    journal = open_journal(str(tmp_path), "app", "old", 1)
    journal.store(Commit(Checkpoint(2, 0, 1), {"items": (0, 3)}))
    journal.close()
    path = tmp_path / "app" / f"old{SUFFIX}"
    change(path, "UPDATE progress SET body = :old", old=sealed((2, 0, 1, {"items": (0, 3)})))
    found = Journal(path, "old", 2).found
    assert (found.checkpoint, found.positions, found.wanted) == (Checkpoint(2, 0, 1), {"items": (0, 3)}, None)
    open_journal(str(tmp_path), "app", "new", 1).close()
    assert [each.name for each in (tmp_path / "app").glob(f"*{SUFFIX}")] == [f"new{SUFFIX}"]


def test_a_state_that_was_taken_back_to_nothing_is_stored_after_a_restart(path: Path) -> None:
    keep(path, Commit(Checkpoint(1, states={"sum": 6})))
    keep(path, Commit(Checkpoint(2, states={"sum": None})), epoch=2)
    assert Journal(path, "r", 3).found.checkpoint == Checkpoint(2, states={"sum": None})


def test_of_keys_the_last_state_is_found_and_what_was_forgotten_is_not(path: Path) -> None:
    first = {"sum": {0: {"a": b"1", ("b", 2): b"2"}, 1: {7: b"3"}}, "other": {0: {"a": b"4"}}}
    second = {"sum": {0: {"a": None, ("b", 2): b"5"}, 2: {True: b"6"}}}
    third = {"sum": {2: {1: b"7"}}}
    keep(path, *(Commit(Checkpoint(at, keyed=each)) for at, each in enumerate((first, second, third), start=1)))
    found = Journal(path, "r", 2).found
    assert found.keyed == {"sum": {("b", 2): b"5", 7: b"3", 1: b"7"}, "other": {"a": b"4"}}
    assert found.checkpoint == Checkpoint(3)


def test_a_journal_from_before_states_of_keys_goes_on(path: Path) -> None:
    keep(path, Commit(Checkpoint(1)))
    change(path, "DROP TABLE keyed", "DROP TABLE keyed_log", "PRAGMA user_version = 1")
    keep(path, Commit(Checkpoint(2, keyed={"sum": {0: {"a": b"1"}}})), epoch=2)
    assert Journal(path, "r", 3).found.keyed == {"sum": {"a": b"1"}}


def test_states_of_keys_that_had_a_row_each_go_on(path: Path) -> None:
    Journal(path, "r", 1).close()
    for key, state in ((1, b"one"), (2, b"two")):
        change(path, "INSERT INTO keyed VALUES ('sum', :key, :body)", key=b"i%d;" % key, body=sealed((key, state)))
    change(path, "INSERT INTO progress VALUES (1, :done)", done=sealed((2, 0, 0, {}, None)))
    change(path, "DROP TABLE keyed_log", "PRAGMA user_version = 2")
    journal = Journal(path, "r", 2)
    assert journal.found.keyed == {"sum": {1: b"one", 2: b"two"}}
    journal.store(Commit(Checkpoint(3, keyed={"sum": {0: {1: None}}})))
    journal.close()
    assert Journal(path, "r", 3).found.keyed == {"sum": {2: b"two"}}


def without_empty(states: Mapping[str, Any]) -> dict[str, Any]:
    return {stage: each for stage, each in states.items() if each}


KEYED = st.dictionaries(
    st.sampled_from(["sum", "other"]),
    st.dictionaries(st.just(0), st.dictionaries(st.integers(0, 12), st.one_of(st.none(), st.binary(max_size=9)))),
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.tuples(KEYED, st.sampled_from(["stored", "stored", "stored", "no room", "another epoch"]))))
def test_the_log_of_states_has_the_last_of_each_key_whatever_comes_between(path: Path, steps: Any) -> None:
    path.unlink(missing_ok=True)
    plain: dict[str, dict[int, bytes]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyed, "SPARE", 3)
        patch.setattr(journal_file, "RECORD_BYTES", 20)
        journal = Journal(path, "r", 1)
        for epoch, (changed, how) in enumerate(steps, start=2):
            if how == "no room":
                pages = journal._file.db.execute("PRAGMA page_count").fetchone()[0]
                journal._file.db.execute(f"PRAGMA max_page_count = {pages}")
                with suppress(NotNow):
                    journal.store(Commit(Checkpoint(epoch, keyed=changed), {"much": bytes(50_000)}))
                    pytest.fail("there is no room for it")
                journal._file.db.execute("PRAGMA max_page_count = 1000000")
            journal.store(Commit(Checkpoint(epoch, keyed=changed)))
            for stage, parts in changed.items():
                mine = plain.setdefault(stage, {})
                for key, state in parts.get(0, {}).items():
                    mine.pop(key, None)
                    mine |= {} if state is None else {key: state}
            if how == "another epoch":
                journal.close()
                journal = Journal(path, "r", epoch)
                assert without_empty(journal.found.keyed) == without_empty(plain)
        live = sum(map(len, plain.values()))
        stored = sum(len(unsealed(body)) for (body,) in journal._file.db.execute("SELECT body FROM keyed_log"))
        most = max((sum(len(each.get(0, {})) for each in changed.values()) for changed, _ in steps), default=0)
        assert stored <= 3 + 2 * live + 2 * most, "the log grows"
        journal.close()
    assert without_empty(Journal(path, "r", 10_000).found.keyed) == without_empty(plain)


def test_positions_that_changed_are_stored_and_those_that_are_over_forgotten(path: Path) -> None:
    journal = Journal(path, "r", 1)
    journal.store(Commit(Checkpoint(1), {f"part-{each:06}": (1, 1234, 1234) for each in range(20_000)}))
    log = path.with_name(path.name + "-wal")
    journal._file.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    journal.store(Commit(Checkpoint(2), {"new": 7, "part-000000": (2, 0, 20)}))
    assert log.stat().st_size < 100_000, "a commit is as large as what changed"
    journal.store(Commit(Checkpoint(3), dict.fromkeys((f"part-{each:06}" for each in range(1, 20_000)), None)))
    for serial in range(4, 2100):
        journal.store(Commit(Checkpoint(serial), {"new": serial}))
    assert journal._file.db.execute("SELECT count(*), sum(length(body)) FROM keyed_log").fetchone() < (2000, 200_000)
    journal.close()
    found = Journal(path, "r", 2).found
    assert (found.positions, found.keyed) == ({"new": 2099, "part-000000": (2, 0, 20)}, {})


def test_positions_that_an_earlier_version_stored_as_a_whole_go_on(path: Path) -> None:
    Journal(path, "r", 1).close()
    old = {"a": (3, 0), "b": (7, 80), "c": (1, 1)}
    done = sealed((5, 0, 0, old, None, 0))
    change(path, "INSERT INTO progress VALUES (1, :done)", "PRAGMA user_version = 3", done=done)
    journal = Journal(path, "r", 2)
    assert journal.found.positions == old
    journal.store(Commit(Checkpoint(6), {"b": None, "a": (4, 0, 9)}))
    journal.store(Commit(Checkpoint(7), {"d": 1}))
    journal.close()
    assert Journal(path, "r", 3).found.positions == {"a": (4, 0, 9), "c": (1, 1), "d": 1}


@pytest.mark.parametrize(
    ("value", "now", "then"),
    [
        (Done(7, 70, 1234), "datapipe.sources.folder", "apps.input.folder"),
        (Done(7, 70, 1234), "datapipe.sources.folder", "recompose.apps.input.folder"),
        (Reading(12.5, 10.0), "apps.event_time.windowing", "apps.event_time.clock"),
    ],
)
def test_a_value_that_was_pickled_under_the_old_name_of_its_module_is_read(value: object, now: str, then: str) -> None:
    body = pickle.dumps(value, protocol=0).replace(now.encode(), then.encode())
    assert then.encode() in body
    assert unsealed(zlib.crc32(body).to_bytes(4, "big") + body) == value


def test_what_is_stored_together_is_in_several_records(path: Path) -> None:
    """None too large for SQLite, whatever a commit has."""
    texts = tuple(str(number) * 1_000_000 for number in range(10))
    runs = (
        Left(0, texts, None, sum(map(len, texts))),
        Left(10, ("x",), "it raised", 0),
        Left(11, ("y" * 6_000_000,), None, 6_000_000),
        *left(12, "a", "b"),
    )
    last = Commit(Checkpoint(delivered=14, failed=1), left=left(14, "last"))
    keep(path, Commit(Checkpoint(delivered=13, failed=1), left=runs), last)
    with closing(sqlite3.connect(path)) as db:
        sizes = [size for (size,) in db.execute("SELECT length(body) FROM result ORDER BY first")]
    assert len(sizes) > 3
    assert max(sizes) < 6_100_000
    found = Journal(path, "r", 2).found.left
    assert [value for run in found for value in run.values] == [*texts, "x", "y" * 6_000_000, "a", "b", "last"]
    assert [run.error for run in found if run.first == 10] == ["it raised"]


@pytest.mark.parametrize(
    ("commit", "said"),
    [
        (Commit(Checkpoint(delivered=1), left=left(0, "x" * 20_000)), "the record of item 0 is"),
        (Commit(Checkpoint(states={"sum": "x" * 20_000})), "the state of stage sum is"),
        (Commit(Checkpoint(keyed={"by": {0: {"key": b"x" * 20_000}}})), "the state of a key of stage by is"),
    ],
)
def test_what_is_too_large_is_named_and_no_damage(path: Path, monkeypatch: Any, commit: Commit, said: str) -> None:
    connect = sqlite3.connect

    def connected(*args: Any, **how: Any) -> sqlite3.Connection:
        db = connect(*args, **how)
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000)
        return db

    monkeypatch.setattr(sqlite3, "connect", connected)
    journal = Journal(path, "r", 1)
    with pytest.raises(RecomposeError, match=rf"{said} too large for the journal: 20,\d\d\d bytes") as told:
        journal.store(commit)
    assert "damaged" not in str(told.value)
    journal.store(Commit(Checkpoint(delivered=1), left=left(0, "small")))
    journal.close()
    assert Journal(path, "r", 2).found.left == left(0, "small")
