"""Compositions files on disk: what is read when, and what a faulty file does."""

import os
import threading
from pathlib import Path

import pytest

from compositions.document.directory import CompositionDirectory, Problem
from compositions.errors import CompositionError
from compositions.model import Stage

APPS = {"pair": [Stage("a"), Stage("b")], "one": [Stage("a")]}


def write(path: Path, notation: str, name: str = "x", app: str = "pair") -> None:
    """Writes a one-composition file whose time stamp differs from its last, however coarse the file system's clock."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(f"app: {app}\ncompositions: [{{name: {name}, notation: '{notation}'}}]\n", encoding="utf-8")
    os.utime(path, ns=(before + 10**9, before + 10**9))


def names(found: CompositionDirectory, app: str = "pair") -> dict[str, int]:
    return {each.name: each.workers for each in found.compositions(app)}


def test_files_of_all_folders_are_merged_in_order(tmp_path: Path) -> None:
    shipped, own = tmp_path / "shipped", tmp_path / "own"
    shipped.mkdir()
    own.mkdir()
    write(shipped / "b.yaml", "Seq-Par")
    write(shipped / "a.yml", "Seq-Seq")
    write(shipped / "c.yaml", "Par", app="one")
    write(shipped / "notes.txt", "Seq-Nonsense")
    write(own / "a.yaml", "Par*5-Seq")
    both = CompositionDirectory([shipped, own], APPS)
    assert names(both) == {}
    assert both.refresh() == []
    assert names(both) == {"x": 6}
    assert names(both, "one") == {"x": 2}
    assert names(both, "unheard-of") == {}
    single = CompositionDirectory([own, shipped / "b.yaml"], APPS)
    single.refresh()
    assert names(single) == {"x": 3}


def test_a_faulty_file_is_refused_whole_and_what_it_gave_stays(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    write(file, "Seq-Seq")
    found = CompositionDirectory([tmp_path], APPS)
    found.refresh()
    write(file, "Par*7-Rubbish")
    (problem,) = found.refresh()
    assert str(problem).startswith(f"{file}: compositions[0].notation: expected Seq or Par at position 6")
    assert names(found) == {"x": 2}
    assert found.refresh() == [], "an unchanged file is reported once"
    write(file, "Par*7-Seq")
    assert found.refresh() == []
    assert names(found) == {"x": 8}


def test_a_removed_file_takes_its_compositions_along(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", "Seq-Seq", name="a")
    write(tmp_path / "b.yaml", "Seq-Seq", name="b")
    found = CompositionDirectory([tmp_path], APPS)
    found.refresh()
    (tmp_path / "a.yaml").unlink()
    assert found.refresh() == []
    assert names(found) == {"b": 2}


def test_what_cannot_be_read_is_a_problem_not_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.yaml", "Seq-Seq")
    refuse = PermissionError(13, "Permission denied")
    monkeypatch.setattr(Path, "open", lambda *_: (_ for _ in ()).throw(refuse))
    (problem,) = CompositionDirectory([tmp_path], APPS).refresh()
    assert str(problem) == f"{tmp_path / 'a.yaml'}: cannot be read: Permission denied"


def test_a_huge_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    with (tmp_path / "a.yaml").open("wb") as stream:
        stream.truncate(10**10)
    (problem,) = CompositionDirectory([tmp_path], APPS).refresh()
    assert "at most 1,048,576 are accepted" in str(problem)


def test_a_path_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CompositionError, match=r"compositions path .*nowhere does not exist"):
        CompositionDirectory([tmp_path / "nowhere"], APPS)


def test_watching_reads_changes_and_ends_when_told(tmp_path: Path) -> None:
    found = CompositionDirectory([tmp_path], APPS)
    stop, seen = threading.Event(), threading.Event()

    def report(problems: list[Problem]) -> None:
        if names(found) == {"x": 3}:
            seen.set()

    watcher = threading.Thread(target=found.watch, args=(stop, report), kwargs={"every_s": 0.1, "debounce_s": 0.05})
    watcher.start()
    write(tmp_path / "a.yaml", "Par-Seq")
    assert seen.wait(timeout=20)
    stop.set()
    watcher.join(timeout=20)
    assert not watcher.is_alive()
