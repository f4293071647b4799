"""A folder as a source: what its sentences hide."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.input.folder import FolderFeed
from compositions.errors import RecomposeError


@pytest.mark.parametrize("url", ["foo://KEY:S3CRET@bucket", "s3://KEY:S3/CRET@bucket"])
def test_keys_of_an_object_store_are_in_no_sentence(url: str) -> None:
    with pytest.raises(RecomposeError, match="cannot be read") as refused:
        FolderFeed(url, endless=False)
    assert "bucket" in str(refused.value)
    assert "KEY" not in str(refused.value)
    assert "CRET" not in str(refused.value)


def test_a_line_without_its_end_is_waited_for_where_more_may_come(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"1\n2")
    feed = FolderFeed(str(tmp_path), endless=True)
    assert [message.body for message in feed.poll(9, 0.0)] == [b"1"]
    file.write_bytes(b"1\n23\n")
    assert [message.body for message in feed.poll(9, 0.0)] == [b"23"]
    feed.close()


def test_a_csv_line_without_its_end_is_waited_for_where_more_may_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.input.folder.LOOK_EVERY_S", 0.0)
    monkeypatch.setattr("apps.input.folder.TAIL_BYTES", 3)
    file = tmp_path / "a.csv"
    feed = FolderFeed(str(tmp_path), endless=True)
    came = []
    for content in ("a,", "a,b\n", "a,b\n1,2\n3", "a,b\n1,2\n34,5", "a,b\n1,2\n34,56\n"):
        file.write_text(content)
        came.append([message.body for message in feed.poll(9, 0.0)])
    assert came == [[], [], [{"a": 1, "b": 2}], [], [{"a": 34, "b": 56}]]
    whole = FolderFeed(str(tmp_path), endless=False)
    file.write_text("a,b\n1,2\n3,4")
    assert len(whole.poll(9, 0.0)) == 2, "the last line of a folder that ends needs no end"


def test_the_last_line_of_a_folder_that_ends_needs_no_end(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"1\n2")
    assert [message.body for message in FolderFeed(str(tmp_path), endless=False).poll(9, 0.0)] == [b"1", b"2"]


def test_an_idle_folder_is_not_listed_for_every_poll(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = FolderFeed(str(tmp_path), endless=True)
    looks: list[int] = []
    monkeypatch.setattr(feed, "_unread", lambda: looks.append(1) or iter(()))
    for _ in range(5):
        assert feed.poll(9, 0.0) == []
    assert looks == [1]
