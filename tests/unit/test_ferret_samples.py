"""Sample photos out of the scikit-image wheel, and the folder where they are kept."""

from __future__ import annotations

import os
from pathlib import Path

import cv2
import pytest

from apps import samples
from apps.ferret.app import images_of
from apps.ferret.options import FerretOptions
from apps.samples import cache_dir, sample_photos
from compositions.errors import RecomposeError

pytestmark = pytest.mark.usefixtures("own_cache")


def test_photos_are_made_once_and_the_recipe_is_seeded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("skimage", reason="extra samples: scikit-image, whose photos are used, is not installed")
    folder = sample_photos(per_source=2)
    made = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert len(made) >= 10
    assert len(set(made.values())) == len(made)
    pictures = [cv2.imread(str(path)) for path in folder.iterdir()]
    assert {picture is not None and picture.shape for picture in pictures} == {(240, 160, 3), (160, 240, 3)}
    stamp = folder.stat().st_mtime_ns
    assert images_of(FerretOptions(samples=2)) == folder
    assert folder.stat().st_mtime_ns == stamp
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert {path.name: path.read_bytes() for path in sample_photos(per_source=2).iterdir()} == made


def test_without_scikit_image_the_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "find_spec", lambda name: None)
    with pytest.raises(RecomposeError, match=r"scikit-image is not installed; .* recompose\[samples\]"):
        sample_photos()


def test_a_cache_that_cannot_be_made_falls_back_to_a_private_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "tmp"))
    assert cache_dir().parent == tmp_path / "tmp"
    assert cache_dir().stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("to", ["folder", "nowhere", "file"])
def test_a_link_in_place_of_the_private_temporary_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str
) -> None:
    """Also one to a folder of the same user, which is not for this."""
    (tmp_path / "no-folder").write_text("")
    (tmp_path / "folder").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no-folder"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    place = tmp_path / f"recompose-{os.getuid()}"
    if to == "file":
        place.write_text("")
    else:
        place.symlink_to(tmp_path / to)
    with pytest.raises(RecomposeError, match="is no folder; set XDG_CACHE_HOME to one of yours"):
        cache_dir()
