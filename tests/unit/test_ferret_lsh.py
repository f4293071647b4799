"""Hashing regions: every bucket number against the formula, and near regions against a search of all of them."""

from __future__ import annotations

from math import floor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from apps.ferret.lsh import Projections, RegionIndex, draw_projections, load_projections
from compositions.errors import RecomposeError

DRAWN = draw_projections()


def features(count: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(0, 2, (count, 14)).astype(np.float32)


def arrays_of(projections: Projections) -> dict[str, NDArray[np.generic]]:
    keys = ("alpha", "beta", "rnd", "W", "H")
    return {key: np.asarray(value) for key, value in zip(keys, projections, strict=True)}


def test_bucket_numbers_follow_the_formula() -> None:
    (x,) = features(1)
    wanted = []
    for table in range(8):
        hashes = range(table * 17, table * 17 + 17)
        slots = [floor((float(DRAWN.alpha[j] @ x) + float(DRAWN.beta[j])) / float(DRAWN.width[table])) for j in hashes]
        mixed = sum(int(r) * slot for r, slot in zip(DRAWN.mixers[table], slots, strict=True))
        wanted.append(mixed % 2**32 % DRAWN.buckets)
    assert DRAWN.bucket_numbers(x[None]).tolist() == [wanted]


def test_a_region_is_near_itself_and_the_answer_ascends_without_doubles() -> None:
    database = features(300)
    index = RegionIndex(database, DRAWN)
    near = index.near(database[[7, 250, 7]], keep=5)
    assert {7, 250} <= set(near.tolist())
    assert near.tolist() == sorted(set(near.tolist()))


def test_with_one_bucket_for_all_the_nearest_of_all_regions_are_found() -> None:
    database, queries = features(200), features(3, seed=1)
    near = RegionIndex(database, DRAWN._replace(buckets=1)).near(queries, keep=4)
    apart = np.linalg.norm(database[None].astype(float) - queries[:, None], axis=2)
    assert set(near.tolist()) == set(np.argsort(apart, axis=1)[:, :4].ravel().tolist())


def test_of_equally_near_regions_the_first_are_kept() -> None:
    database = np.repeat(features(1), 6, axis=0)
    assert RegionIndex(database, DRAWN).near(database[:1], keep=3).tolist() == [0, 1, 2]


def test_a_region_whose_buckets_are_empty_has_no_neighbours() -> None:
    assert RegionIndex(features(5), DRAWN).near(features(1, seed=9) + np.float32(1000), keep=3).tolist() == []


def test_projections_are_read_from_a_file_and_only_8_tables_are_used(tmp_path: Path) -> None:
    twelve = Projections(
        np.concatenate((DRAWN.alpha, DRAWN.alpha[:68])),
        np.concatenate((DRAWN.beta, DRAWN.beta[:68])),
        np.concatenate((DRAWN.mixers, DRAWN.mixers[:4])),
        np.full(12, 4.0708, np.float32),
        DRAWN.buckets,
    )
    np.savez(tmp_path / "twelve.npz", **arrays_of(twelve))  # type: ignore[arg-type]
    loaded = load_projections(tmp_path / "twelve.npz")
    assert (loaded.bucket_numbers(features(9)) == DRAWN.bucket_numbers(features(9))).all()


@pytest.mark.parametrize("fault", ["missing file", "no npz", "torn npz", "missing array", "wrong shape", "too few"])
def test_projections_that_do_not_fit_are_refused_with_a_sentence(tmp_path: Path, fault: str) -> None:
    path = tmp_path / "p.npz"
    arrays = arrays_of(DRAWN)
    if fault == "missing array":
        del arrays["beta"]
    if fault == "wrong shape":
        arrays["beta"] = arrays["beta"][:5]
    if fault == "too few":
        arrays.update(alpha=arrays["alpha"][:17], beta=arrays["beta"][:17], rnd=arrays["rnd"][:1], W=arrays["W"][:1])
    if fault == "no npz":
        path.write_text("alpha")
    elif fault != "missing file":
        np.savez(path, **arrays)  # type: ignore[arg-type]
    if fault == "torn npz":
        path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(RecomposeError, match=r"p\.npz' holds no projections .* of at least 8 tables"):
        load_projections(path)


def test_drawing_is_seeded() -> None:
    assert (draw_projections().alpha == DRAWN.alpha).all()
    assert (draw_projections(1).alpha != DRAWN.alpha).any()
