"""Data sets: what is computed, what is kept, what a reader sees, and what is refused."""

import fcntl
import json
import os
import random
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from apps.data_sets.files import Place
from apps.data_sets.ingest import Ingested, ingest, keep
from apps.data_sets.npz import Streamed, whole, write_npz
from apps.data_sets.reader import Reader
from apps.data_sets.rows import TURN_ROWS, Rows, write_rows
from apps.data_sets.versions import Unusable, writing
from apps.data_sets.work import Engine, chunks, in_process
from compositions.errors import RecomposeError
from lab.benchmarks.ingest_rate import content


class Lines:
    """Rows are the lines of a text; one that says ``bad`` cannot be used."""

    kind = "lines"
    suffixes = frozenset({".txt"})
    columns = pa.schema([("text", pa.string()), ("length", pa.int32())])

    def __init__(self, folder: Path, **parameters: Any) -> None:
        self.folder = folder
        self.parameters = parameters
        self.index_parameters: dict[str, Any] = {}
        self.computed: list[str] = []

    def rows(self, path: str, data: bytes) -> list[dict[str, Any]]:
        self.computed.append(path)
        if b"bad" in data:
            raise RecomposeError(f"{path} is bad")
        return [{"text": line, "length": len(line)} for line in data.decode().splitlines()]

    def write_index(self, rows: Rows, place: Path) -> None:
        place.write_text(json.dumps([row for some in rows for row in some.to_pylist()]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "in"
    place.mkdir()
    for number in range(40):
        (place / f"{number}.txt").write_text(f"{number}\nline two of {number}")
    (place / "notes.md").write_text("not one of them")
    return place


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def recipe(folder: Path, out: Path) -> Lines:
    """One whose data set is made."""
    made = Lines(folder)
    make(made, out)
    return made


def make(recipe: Lines, out: Path, engine: Engine | None = None) -> Ingested:
    place = Place(recipe.folder)
    recipe.computed = []
    return ingest(recipe, place, out, engine or in_process(recipe, place))


def counting(out: Path) -> Reader[int]:
    """Its indexes are the numbers of their rows."""
    return Reader(out, "lines", lambda file: len(json.loads(file.read_text())))


def index(out: Path) -> list[dict[str, Any]]:
    number, rows = Reader(out, "lines", lambda file: json.loads(file.read_text())).newest()
    assert number == json.loads((out / "manifest.json").read_text())["version"]
    return list(rows)


def test_the_tables_say_what_is_in_the_files(folder: Path, out: Path) -> None:
    (folder / "x.txt").write_text("bad")
    done = make(Lines(folder), out)
    assert done == Ingested(version=1, computed=41, kept=0, gone=0, quarantined=1, rows=80)
    features = pq.read_table(out / "versions/1/features")
    rows = sorted(zip(*(features[name].to_pylist() for name in ("path", "row", "text")), strict=True))
    assert rows == sorted((f"{n}.txt", k, t) for n in range(40) for k, t in enumerate([f"{n}", f"line two of {n}"]))
    quarantine = pq.read_table(out / "versions/1/quarantine.parquet").to_pylist()
    assert quarantine == [{"path": "x.txt", "reason": "x.txt is bad"}]
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["counts"] == {"files": 41, "quarantined": 1, "rows": 80}
    assert manifest["sha256"] == {name: sum_ for name, sum_ in content(out).items() if name != "manifest.json"}
    assert [row["text"] for row in index(out)][:2] == ["0", "line two of 0"]


def test_what_is_new_is_computed_and_the_end_is_as_from_the_start(recipe: Lines, folder: Path, out: Path) -> None:
    assert make(recipe, out) == Ingested(version=1, computed=0, kept=40, gone=0, quarantined=0, rows=80)
    assert recipe.computed == []
    for number in range(100, 105):
        (folder / f"{number}.txt").write_text("new")
    (folder / "3.txt").write_text("changed")
    (folder / "4.txt").unlink()
    os.utime(folder / "5.txt", ns=(1, 1))
    done = make(recipe, out)
    assert done == Ingested(version=2, computed=6, kept=38, gone=1, quarantined=0, rows=80 - 3 + 5)
    assert sorted(recipe.computed) == sorted(["3.txt", *(f"{number}.txt" for number in range(100, 105))])
    anew = out.with_name("anew")
    make(Lines(folder), anew)
    assert content(anew) | {"manifest.json": ""} == content(out) | {"manifest.json": ""}


def test_rows_of_many_parts_come_in_order_and_few_at_a_time(tmp_path: Path) -> None:
    chance = random.Random(1)
    rows = [{"path": f"{file}", "row": row} for file in range(300) for row in range(chance.choice([0, 1, 2, 900]))]
    schema = pa.schema([("path", pa.string()), ("row", pa.int32())])
    parts = [tmp_path / f"{part}" for part in range(4)]
    for number, part in enumerate(parts):  # the last has none
        mine = [row for row in rows if int(row["path"]) % 3 == number]
        write_rows(pa.Table.from_pylist(sorted(mine, key=lambda row: (row["path"], row["row"])), schema), part)
    found = Rows(parts, pa.table({"path": ["0", "1"], "rows": [0, 1]}))
    assert found.files["path"].to_pylist() == ["1"]
    for _ in range(2):
        got = [some.to_pylist() for some in found]
        assert [row for some in got for row in some] == sorted(rows, key=lambda row: (row["path"], row["row"]))
        assert max(map(len, got)) <= len(parts) * TURN_ROWS
    assert pa.concat_tables(found).num_rows == len(rows)


def test_an_npz_file_in_pieces_is_that_of_numpy(tmp_path: Path) -> None:
    arrays = {
        "text": np.array("one"),
        "names": np.array(["a", "\xe9\u20ac"]),
        "flat": np.arange(10, dtype=np.int64),
        "wide": np.arange(30, dtype=np.float32).reshape(10, 3),
        "none": np.zeros((0, 2), np.int32),
        "number": 7,
    }
    np.savez(tmp_path / "wanted.npz", **arrays)
    pieces = Streamed("wide", np.dtype(np.float32), (10, 3), [arrays["wide"][:4], arrays["wide"][4:]])
    entries = (pieces if name == "wide" else whole(name, array) for name, array in arrays.items())
    write_npz(tmp_path / "found.npz", entries)
    assert (tmp_path / "found.npz").read_bytes() == (tmp_path / "wanted.npz").read_bytes()


def test_what_did_not_change_is_shared_with_the_version_before(recipe: Lines, folder: Path, out: Path) -> None:
    (folder / "new.txt").write_text("new")
    make(recipe, out)
    before = {path.stat().st_ino for path in (out / "versions/1/features").rglob("*.parquet")}
    now = [path.stat().st_ino for path in (out / "versions/2/features").rglob("*.parquet")]
    assert sum(inode not in before for inode in now) == 1


def test_other_parameters_compute_everything_and_another_index_nothing(folder: Path, out: Path) -> None:
    make(Lines(folder, fine=1), out)
    assert make(Lines(folder, fine=2), out).computed == 40
    other = Lines(folder, fine=2)
    other.index_parameters = {"order": "other"}
    assert make(other, out)[:2] == (3, 0)


def test_a_file_that_could_not_be_read_is_tried_again(folder: Path, out: Path) -> None:
    place, recipe = Place(folder), Lines(folder)

    class Broken(Place):
        def read(self, path: str) -> bytes:
            if path == "7.txt":
                raise OSError(5, "Input/output error")
            return super().read(path)

    for _ in range(2):  # to no avail, which is no new version
        done = ingest(recipe, place, out, in_process(recipe, Broken(folder)))
        assert (done.version, done.quarantined) == (1, 1)
    (reason,) = pq.read_table(out / "versions/1/quarantine.parquet")["reason"].to_pylist()
    assert reason == "7.txt cannot be read: Input/output error"
    assert make(recipe, out) == Ingested(version=2, computed=1, kept=39, gone=0, quarantined=0, rows=80)


class Killed(Lines):
    """Dies in the middle, as by a signal."""

    def rows(self, path: str, data: bytes) -> list[dict[str, Any]]:
        if len(self.computed) >= 30:
            raise KeyboardInterrupt
        return super().rows(path, data)


def test_a_job_that_is_killed_leaves_the_old_version_and_the_next_goes_on(
    recipe: Lines, folder: Path, out: Path
) -> None:
    for number in range(40):
        (folder / f"{number}.txt").write_text(f"other {number}")
    with pytest.raises(KeyboardInterrupt):
        make(Killed(folder), out)
    assert len(index(out)) == 80
    assert make(recipe, out).computed == 40
    assert len(recipe.computed) == 40 - 8 - 16, "the first and the second time that records were put on disk"
    assert [row["text"] for row in index(out)][:2] == ["other 0", "other 1"]
    assert not (out / "staging").exists()


def test_records_are_put_on_disk_by_time_as_well() -> None:
    tasks = pa.table({"number": range(500)})
    taken_s = iter([0.0, 1.0, 1.0, 2.0, 2.0, 12.0, 12.0, 16.0, 16.0, *([17.0] * 100)])
    sizes = [chunk.num_rows for chunk in chunks(tasks, 64, clock=lambda: next(taken_s))]
    assert sizes[:6] == [8, 16, 32, 16, 16, 32], "after 1, 1, 10, 4 and 1 seconds"
    assert max(sizes) == 64
    assert sum(sizes) == 500


def test_a_folder_that_goes_is_made_again(folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, left = fcntl.flock, [1, 1]

    def removed_meanwhile(file: Any, how: int) -> None:
        if left and left.pop():
            shutil.rmtree(out)
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", removed_meanwhile)
    with writing(out, "lines", wait=True), pytest.raises(RecomposeError, match="is being written by another process"):
        make(Lines(folder), out)


def test_a_file_that_changes_between_two_tries_is_computed_again(folder: Path, out: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        make(Killed(folder), out)
    (folder / "0.txt").write_text("quite another text")
    make(Lines(folder), out)
    assert "quite another text" in [row["text"] for row in index(out)]


def test_a_reader_follows_and_still_opens_the_versions_before(recipe: Lines, folder: Path, out: Path) -> None:
    loads: list[Path] = []
    reader = Reader(out, "lines", lambda file: loads.append(file) or len(json.loads(file.read_text())))
    assert reader.newest() == (1, 80)
    (folder / "new.txt").write_text("one")
    make(recipe, out)
    assert reader.newest() == (2, 81)
    assert reader.version(1) == 80
    assert counting(out).version(1) == 80
    os.utime(folder / "new.txt", ns=(5, 5))
    make(recipe, out)
    assert reader.newest() == (3, 81)
    assert len(loads) == 2, "the index of version 3 is that of version 2"


@pytest.mark.usefixtures("recipe")
def test_a_reader_stays_where_the_new_version_cannot_be_opened(out: Path, caplog: pytest.LogCaptureFixture) -> None:
    reader = counting(out)
    (out / "manifest.json").write_text("{}")
    assert reader.newest() == (1, 80)
    assert "staying with version 1" in caplog.text
    shutil.copy(out / "versions/1/manifest.json", out / "manifest.json")
    assert reader.newest() == (1, 80)


def test_old_versions_go(folder: Path, out: Path) -> None:
    recipe = Lines(folder)
    for number in range(5):
        (folder / "0.txt").write_text(f"{number}")
        make(recipe, out)
    assert sorted(path.name for path in (out / "versions").iterdir()) == ["3", "4", "5"]
    with pytest.raises(RecomposeError, match="contains no data set"):
        counting(out).version(1)


def test_one_writer_at_a_time(folder: Path, out: Path) -> None:
    waited = threading.Thread(target=keep, args=(Lines(folder), folder, out))
    with writing(out, "lines"):
        with pytest.raises(RecomposeError, match="is being written by another process; wait for it"):
            make(Lines(folder), out)
        waited.start()
    waited.join(60)
    assert len(index(out)) == 80


def test_a_damaged_table_is_refused_and_left_as_it_is_or_made_anew(recipe: Lines, folder: Path, out: Path) -> None:
    (folder / "0.txt").write_text("changed")
    (out / "versions/1/files.parquet").write_bytes(b"no Parquet")
    with pytest.raises(Unusable, match="cannot be updated"):
        make(recipe, out)
    assert len(index(out)) == 80
    keep(recipe, folder, out)
    assert len(index(out)) == 79


def test_a_folder_that_gives_nothing_leaves_nothing(tmp_path: Path, out: Path) -> None:
    """Nor one without files, and one that does not exist: tests/unit/test_cli_telemetry.py."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.txt").write_text("bad")
    with pytest.raises(RecomposeError, match=r"none of the 1 files in '.*in' can be used: a\.txt is bad"):
        make(Lines(folder), out)
    assert not out.exists()


def test_a_job_that_comes_to_nothing_removes_nothing_it_has_not_made(recipe: Lines, folder: Path, out: Path) -> None:
    (out / "manifest.json").unlink()
    for file in folder.glob("*.txt"):
        file.write_text("bad")
    with pytest.raises(RecomposeError, match="none of the 40 files"):
        make(recipe, out)
    assert (out / "versions/1/index.npz").exists()


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        ("{", "is damaged"),
        ('{"kind": "lines", "format": 2, "version": 1}', "has format 2; this version reads format 1"),
        ('{"kind": "faces", "format": 1, "version": 1}', "is of kind 'faces'; 'lines' is needed"),
    ],
)
def test_what_cannot_be_continued_is_refused(recipe: Lines, out: Path, manifest: str, sentence: str) -> None:
    (out / "manifest.json").write_text(manifest)
    with pytest.raises(RecomposeError, match=sentence):
        make(recipe, out)
    assert (out / "manifest.json").read_text() == manifest


def test_a_folder_may_be_a_url_and_a_place_one_file(folder: Path, tmp_path: Path) -> None:
    assert Place(f"file://{folder}").list(Lines.suffixes).num_rows == 40
    assert Place(folder / "3.txt").list(Lines.suffixes)["path"].to_pylist() == ["3.txt"]
    assert Place(folder / "3.txt").read("3.txt") == b"3\nline two of 3"
    with pytest.raises(RecomposeError, match="cannot be read"):
        Place("gopher://host/files")


def test_each_file_is_there_once_whatever_links_lead_to_it(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "outside"
    for place in (inside / "sub", outside / "deep"):
        place.mkdir(parents=True)
        (place / "a.txt").write_text("a")
    (inside / "b.txt").write_text("b")
    os.link(inside / "b.txt", inside / "c.txt")
    loops = {"loop": "in", "sub/loop": "in", "sub/more": "in/sub", "self": "in/self"}
    twice = {"b-again.txt": "in/b.txt", "deep": "outside/deep", "deep-file.txt": "outside/deep/a.txt", "out": "outside"}
    for name, target in {**loops, **twice, "nowhere.txt": "nowhere.txt"}.items():
        (inside / name).symlink_to(tmp_path / target)
    os.mkfifo(inside / "pipe.txt")
    found = Place(inside).list(Lines.suffixes)
    assert found["path"].to_pylist() == ["b.txt", "c.txt", "deep/a.txt", "sub/a.txt"]
    assert (found["size"][0].as_py(), found["mtime_ns"][0].as_py()) == (1, (inside / "b.txt").stat().st_mtime_ns)


def test_a_name_that_is_no_utf_8_is_in_quarantine(folder: Path, out: Path) -> None:
    for name in (b"\xff\xe9.txt", b"\xfe.md"):
        Path(os.fsdecode(os.fsencode(folder / "") + b"/" + name)).write_text("odd")
    done = make(Lines(folder), out)
    assert (done.quarantined, done.rows) == (1, 80)
    (row,) = pq.read_table(next(out.rglob("quarantine.parquet"))).to_pylist()
    assert row["path"] == "\\xff\\xe9.txt"
    assert row["reason"] == "\\xff\\xe9.txt cannot be read: its name is not UTF-8; rename it"
    assert Place(folder).skipped(Lines.suffixes) == ("\\xfe.md", "notes.md")
