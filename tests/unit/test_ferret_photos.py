"""Which files count as photos, and their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.ferret.values import list_photos
from compositions.errors import RecomposeError


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_photos_of_subfolders_go_by_their_file_names_in_the_order_of_their_paths(tmp_path: Path) -> None:
    touch(tmp_path, "val/1.jpg", "test/9.JPG", "notes.txt", "2.png")
    assert [name for name, _ in list_photos(tmp_path)] == ["2.png", "9.JPG", "1.jpg"]


def test_the_same_file_name_twice_is_told_apart_by_the_path(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.jpg", "b/1.jpg", "b/2.jpg")
    assert [name for name, _ in list_photos(tmp_path)] == ["a/1.jpg", "b/1.jpg", "2.jpg"]


def test_one_photo_is_a_list_of_one(tmp_path: Path) -> None:
    touch(tmp_path, "1.jpg")
    assert list_photos(tmp_path / "1.jpg") == [("1.jpg", tmp_path / "1.jpg")]


def test_no_photos_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RecomposeError, match=r"has no photos; \.bmp, \.jpeg, \.jpg"):
        list_photos(tmp_path)
    with pytest.raises(RecomposeError, match="does not exist; give a folder of photos"):
        list_photos(tmp_path / "nowhere")
