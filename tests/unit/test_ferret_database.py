"""Building, keeping and refusing databases."""

from __future__ import annotations

import os
from pathlib import Path

import cv2
import numpy as np
import pytest

from apps.ferret.database import Database, build_database, current_database, database_path, load_database
from apps.ferret.lsh import draw_projections
from apps.ferret.values import Signature
from compositions.errors import RecomposeError

DRAWN = draw_projections()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number in range(3):
        write_photo(tmp_path / "photos" / f"{number}.png", seed=number)
    return tmp_path / "photos"


def write_photo(path: Path, seed: int) -> None:
    path.parent.mkdir(exist_ok=True)
    coarse = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    cv2.imwrite(str(path), coarse.repeat(30, 0).repeat(40, 1))


def test_what_is_saved_is_what_is_loaded(photos: Path, tmp_path: Path) -> None:
    built = build_database(photos, DRAWN)
    built.save(tmp_path / "new" / "db.npz")
    loaded = load_database(tmp_path / "new" / "db.npz")
    assert loaded.names == ("0.png", "1.png", "2.png")
    assert loaded.manifest == built.manifest
    assert loaded.projections.buckets == DRAWN.buckets
    for part in ("starts", "weights", "features"):
        assert (getattr(loaded, part) == getattr(built, part)).all()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["db.npz"]


def test_a_kept_database_is_used_again_until_a_photo_changes(photos: Path) -> None:
    current_database(photos, DRAWN)
    path = database_path(photos, DRAWN)
    before = path.stat().st_mtime_ns, path.stat().st_ino
    assert current_database(photos, DRAWN).names == ("0.png", "1.png", "2.png")
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before
    write_photo(photos / "3.png", seed=3)
    assert current_database(photos, DRAWN).names == ("0.png", "1.png", "2.png", "3.png")
    os.utime(photos / "3.png", ns=(1, 1))
    assert current_database(photos, DRAWN).manifest["files"][3][2] == 1


def test_a_damaged_kept_database_is_built_anew(photos: Path) -> None:
    current_database(photos, DRAWN)
    path = database_path(photos, DRAWN)
    path.write_bytes(path.read_bytes()[:1000])
    assert len(current_database(photos, DRAWN).names) == 3


def test_other_projections_are_another_database(photos: Path) -> None:
    assert database_path(photos, DRAWN) != database_path(photos, draw_projections(1))


def test_an_unreadable_photo_is_left_out_and_noted(photos: Path, caplog: pytest.LogCaptureFixture) -> None:
    (photos / "1.png").write_text("no picture")
    database = build_database(photos, DRAWN)
    assert database.names == ("0.png", "2.png")
    assert list(database.manifest["skipped"]) == ["1.png"]
    assert "left out of the image database: 1.png is no picture" in caplog.text


def test_a_folder_of_unreadable_photos_is_refused(tmp_path: Path) -> None:
    (tmp_path / "1.png").write_text("no picture")
    with pytest.raises(RecomposeError, match=r"none of the 1 photos in .* can be read: 1\.png is no picture"):
        build_database(tmp_path, DRAWN)


@pytest.mark.parametrize("fault", ["missing", "text", "torn", "version"])
def test_what_is_no_database_is_refused_with_a_sentence(photos: Path, tmp_path: Path, fault: str) -> None:
    path = tmp_path / "db.npz"
    if fault == "text":
        path.write_text("images")
    elif fault != "missing":
        database = build_database(photos, DRAWN)
        database.manifest["format"] = 0 if fault == "version" else 1
        database.save(path)
    if fault == "torn":
        path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(RecomposeError, match=r"db\.npz' is no Ferret database .* with the option images"):
        load_database(path)


def test_the_regions_of_some_images_alone() -> None:
    signatures = [
        Signature(str(k), np.full(k + 1, k, np.float32), np.full((k + 1, 14), k, np.float32)) for k in range(4)
    ]
    database = Database.of(signatures, DRAWN)
    weights, features, starts = database.regions_of(np.array([1, 3]))
    assert weights.tolist() == [1, 1, 3, 3, 3, 3]
    assert features[:, 13].tolist() == weights.tolist()
    assert starts.tolist() == [0, 2, 6]
    assert database.owners(np.array([0, 1, 2, 5, 9])).tolist() == [0, 1, 2, 3]
