"""Keeping and refusing databases, and what is in one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from apps.ferret import database as module
from apps.ferret.data_set import display_names
from apps.ferret.database import Database, load_database
from apps.ferret.lsh import draw_projections
from apps.ferret.values import Signature
from compositions.errors import RecomposeError

DRAWN = draw_projections()


def signature(name: str, seed: int) -> Signature:
    features = np.random.default_rng(seed).normal(0, 1, (seed + 1, 14)).astype(np.float32)
    return Signature(name, np.full(seed + 1, 1 / (seed + 1), np.float32), features)


@pytest.fixture
def built() -> Database:
    return Database.of([signature(f"{k}.png", k) for k in range(3)], DRAWN)


def test_what_is_saved_is_what_is_loaded(built: Database, tmp_path: Path) -> None:
    built.save(tmp_path / "new" / "db.npz")
    loaded = load_database(tmp_path / "new" / "db.npz")
    assert loaded.names == ("0.png", "1.png", "2.png")
    assert loaded.projections.fingerprint == DRAWN.fingerprint
    for part in ("starts", "weights", "features"):
        assert (getattr(loaded, part) == getattr(built, part)).all()
    assert loaded.buckets is not None, "the index is in the file, and not made in every worker"
    assert loaded.index.near(built.features, 3).tolist() == built.index.near(built.features, 3).tolist()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["db.npz"]


def test_the_same_database_is_the_same_file(built: Database, tmp_path: Path) -> None:
    built.save(tmp_path / "a.npz")
    built.save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


@pytest.mark.parametrize("fault", ["missing", "text", "torn", "version"])
def test_what_is_no_database_is_refused_with_a_sentence(
    built: Database, tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "db.npz"
    if fault == "text":
        path.write_text("images")
    elif fault != "missing":
        with monkeypatch.context() as patch:
            patch.setattr(module, "FORMAT", 0 if fault == "version" else module.FORMAT)
            built.save(path)
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


def test_images_are_called_by_their_file_names_where_those_tell_them_apart() -> None:
    assert display_names(["a/1.png", "b/1.png", "b/2.png"]) == ("a/1.png", "b/1.png", "2.png")


def test_it_may_be_read_by_those_who_may_read_what_lies_beside_it(built: Database, tmp_path: Path) -> None:
    built.save(tmp_path / "a.npz")
    (tmp_path / "beside").write_text("")
    assert (tmp_path / "a.npz").stat().st_mode == (tmp_path / "beside").stat().st_mode
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "beside"]
