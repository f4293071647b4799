"""A folder as a source: which rows there are, what they are, and what its sentences hide."""

import os
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from apps.contract import App
from compositions.errors import RecomposeError
from datapipe.sources.fed import Fed, Message
from datapipe.sources.folder import FolderFeed
from datapipe.sources.portions import Closing, Refused
from service.schemas.spec import SourceSpec


def at_every_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is looked at whenever somebody asks."""
    monkeypatch.setattr("datapipe.sources.folder.LOOK_EVERY_S", 0.0)
    monkeypatch.setattr("datapipe.sources.folder.time.monotonic", count().__next__)
    monkeypatch.setattr("datapipe.sources.folder.LOOK_SHARE", 1e9)


def bodies(feed: FolderFeed) -> list[Any]:
    return [str(each.body) if isinstance(each.body, ValueError) else each.body for each in feed.poll(99, 0.0)]


@pytest.mark.parametrize("url", ["foo://KEY:S3CRET@bucket", "s3://KEY:S3/CRET@bucket"])
def test_keys_of_an_object_store_are_in_no_sentence(url: str) -> None:
    with pytest.raises(RecomposeError, match="cannot be read") as refused:
        FolderFeed(url, endless=False)
    assert "bucket" in str(refused.value)
    assert "KEY" not in str(refused.value)
    assert "CRET" not in str(refused.value)


GROWING: dict[str, tuple[str, list[tuple[str, list[Any]]]]] = {
    "a line without its end is waited for": ("a.jsonl", [("1\n2", [b"1"]), ("1\n23\n", [b"23"])]),
    "a file that shrank waits until there is more than was read": (
        "a.jsonl",
        [("1\n2\n3\n", [b"1", b"2", b"3"]), ("", []), ("1\n2\n", []), ("1\n2\n3\n4\n", [b"4"])],
    ),
    "a line of csv without its end is waited for": (
        "a.csv",
        [
            *(("a,", []), ("a,b\n", []), ("a,b\n1,2\n3", [{"a": "1", "b": "2"}])),
            *(("a,b\n1,2\n34,5", []), ("a,b\n1,2\n34,56\n", [{"a": "34", "b": "56"}])),
        ],
    ),
    "a row that ends within quotes is waited for": (
        "a.csv",
        [('a\n1\n"2\n', [{"a": "1"}]), ('a\n1\n"2\n3"\n4\n', [{"a": "2\n3"}, {"a": "4"}])],
    ),
    "a row of csv has texts at each look": (
        "a.csv",
        [("id,n\n007,1\n", [{"id": "007", "n": "1"}]), ("id,n\n007,1\nx1,2.5\n", [{"id": "x1", "n": "2.5"}])],
    ),
}


@pytest.mark.parametrize(("name", "looks"), GROWING.values(), ids=GROWING)
def test_of_a_file_that_changes_each_row_comes_once_when_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, looks: list[tuple[str, list[Any]]]
) -> None:
    at_every_poll(monkeypatch)
    feed = FolderFeed(str(tmp_path), endless=True)
    for content, rows in looks:
        (tmp_path / name).write_text(content)
        assert bodies(feed) == rows
    feed.close()
    again = bodies(FolderFeed(str(tmp_path), endless=True))
    assert again == [row for _, rows in looks for row in rows]


@pytest.mark.parametrize(("name", "content"), [("a.jsonl", "1\n2"), ("a.csv", "a,b\n1,2\n3,4")])
def test_the_last_line_of_a_folder_that_ends_needs_no_end(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    assert len(bodies(FolderFeed(str(tmp_path), endless=False))) == 2


def test_a_file_whose_name_is_no_utf_8_is_left_alone(tmp_path: Path) -> None:
    for name in (b"a.jsonl", b"\xff.jsonl"):
        with open(os.fsencode(tmp_path) + b"/" + name, "w") as file:
            file.write("1\n")
    assert bodies(FolderFeed(str(tmp_path), endless=False)) == [b"1"]


def test_an_idle_folder_is_not_listed_for_every_poll(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = FolderFeed(str(tmp_path), endless=True)
    looks: list[int] = []
    monkeypatch.setattr(feed, "_unread", lambda: looks.append(1) or iter(()))
    for _ in range(5):
        assert feed.poll(9, 0.0) == []
    assert looks == [1]


def test_columns_have_the_types_of_the_header_or_of_the_option(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\ufeffid:text,n:int,share:float,good:bool,at:noon\n007,-4,2.5,True,12:00\n,,,,\n")
    first = {"id": "007", "n": -4, "share": 2.5, "good": True, "at:noon": "12:00"}
    empty = {"id": "", "n": None, "share": None, "good": None, "at:noon": ""}
    assert bodies(FolderFeed(str(tmp_path), endless=False)) == [first, empty]
    asked = SourceSpec(kind="folder", path=str(tmp_path), options={"types": "n:float,at:noon:text"})
    assert bodies(FolderFeed(str(tmp_path), asked.options, endless=False)) == [first | {"n": -4.0}, empty]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"type": "n:int"}, "source folder has no option 'type'; it has types"),
        ({"types": "n:int,id:integer"}, "option types of source folder has 'id:integer'; give NAME:TYPE,… with text"),
    ],
)
def test_options_that_are_none_are_refused(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RecomposeError, match=sentence):
        FolderFeed(str(tmp_path), options, endless=False)


def test_a_bad_row_of_csv_is_refused_alone(tmp_path: Path) -> None:
    rows = b'a,n:int\n1,2\n3\n4,x\n\xff,5\n"6\n7",8\n' + b'"' + b"9" * (1 << 20) + b'\n\n10,11\n12,13\n"14,15\n'
    (tmp_path / "a.csv").write_bytes(rows)
    (tmp_path / "b.csv").write_bytes(b"a\n1\n2\n" + b"9\n" * 600 + b"x\n")
    feed = FolderFeed(str(tmp_path), endless=False)
    assert bodies(feed)[:10] == [
        {"a": "1", "n": 2},
        "the row has 1 cells; the header has 2",
        "column 'n' is 'x'; its type is int",
        "the row is not valid CSV: it is not UTF-8",
        {"a": "6\n7", "n": 8},
        "the row is not valid CSV: field larger than field limit (1048576)",
        {"a": "10", "n": 11},
        {"a": "12", "n": 13},
        "the row is not valid CSV: the file ends within quotes",
        {"a": "1"},
    ]


class Plain(App):
    name = "plain"

    def from_json(self, data: Any) -> Any:
        return data


@pytest.mark.logs_errors("message refused")
def test_the_stream_goes_on_behind_a_bad_row(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3\n4,5\n")
    source = Fed(Plain(), FolderFeed(str(tmp_path), endless=False), float)
    portion: Any = source.read(99, 1.0)
    first, bad, last = portion.values
    assert (first, last, source.refused) == ({"a": "1", "b": "2"}, {"a": "4", "b": "5"}, 1)
    assert isinstance(bad, Refused), "a dead letter in its place"


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_any_position_is_one_to_go_on_from_also_those_of_an_earlier_version(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a.{suffix}"
    if suffix == "parquet":
        pyarrow.parquet.write_table(pa.table({"n": ["1", "2\n", "3"]}), file, row_group_size=2)
    else:
        file.write_text({"jsonl": '"1"\n\n"2\\n"\n"3"\n', "csv": 'n\n1\n\n"2\n"\n3\n'}[suffix])
    messages = FolderFeed(str(tmp_path), endless=False).poll(9, 0.0)
    assert len(messages) == 3
    for at, message in enumerate(messages):
        for position in (message.behind, message.behind[:2]):
            feed = FolderFeed(str(tmp_path), endless=False)
            feed.seek({file.name: position})
            assert feed.poll(9, 0.0) == messages[at + 1 :]


def test_of_a_file_that_grew_nothing_is_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_every_poll(monkeypatch)
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"1\n" * 1000)
    feed = FolderFeed(str(tmp_path), endless=True)
    assert len(feed.poll(1000, 0.0)) == 1000
    file.write_bytes(b"?" * 2000 + b"2\n")
    assert bodies(feed) == [b"2"]


def test_what_is_known_of_a_file_goes_when_the_file_has_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_every_poll(monkeypatch)
    feed = FolderFeed(str(tmp_path), endless=True)
    source = Fed(Plain(), feed, float)

    def read(*texts: str) -> Any:
        for text in texts:
            (tmp_path / f"{text}.jsonl").write_text(f'"{text}"\n')
        portion: Any = source.read(99, 1.0)
        assert portion.values == list(texts)
        return portion.marks

    assert isinstance(read("a", "b"), tuple)
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").unlink()
    assert feed.poll(9, 0.0) == []
    assert sorted(feed._done) == ["a.jsonl", "b.jsonl"], "a folder without any file may be one that is not mounted"
    marks = read("c")
    assert isinstance(marks, Closing)
    assert dict(marks) == {"c.jsonl": (1, 4, 4), "a.jsonl": None, "b.jsonl": None}
    assert list(feed._done) == list(source._positions) == ["c.jsonl"]
    assert dict(read("a")) == {"a.jsonl": (1, 4, 4)}, "a file of that name is another one"


def test_a_file_that_left_and_came_again_before_anything_was_read_keeps_its_new_position() -> None:
    polls = [[Message("x", None, None)], [Message("x", (2, 0, 9), b"1")]]
    poll, seek = (lambda *_: polls.pop(0)), (lambda _: None)
    looked_at_twice: Any = SimpleNamespace(name="scripted", ended=False, poll=poll, seek=seek)
    portion: Any = Fed(Plain(), looked_at_twice, float).read(9, 1.0)
    assert dict(portion.marks) == {"x": (2, 0, 9)}
