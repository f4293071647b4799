"""Ferret against what the original C program wrote for the same photos and projections."""

import os
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apps.data_sets.npz import whole
from apps.ferret import Ferret, FerretOptions
from apps.ferret.database import save, starts_of
from apps.ferret.extract import extract, segment
from apps.ferret.load import read_photo
from apps.ferret.loops.kernels import load_kernel
from apps.ferret.lsh import load_projections
from apps.ferret.values import FEATURES

DATA = os.environ.get("RECOMPOSE_DATA")
pytestmark = pytest.mark.skipif(not DATA, reason="RECOMPOSE_DATA is not set: the original's answers are not here")

FERRET = Path(DATA or ".") / "ferret"
GOLDEN = FERRET / "golden"
FIRST_QUERIES = 3  # answered by the plain Python kernel too, which takes a fifth of a second each

Answers = dict[str, list[tuple[str, str]]]


def answers(name: str) -> Answers:
    """Query file name → (image, distance as printed), in order, from lines ``query<TAB>image:distance …``."""
    lines = [line.split("\t") for line in (GOLDEN / name).read_text().splitlines()]
    return {Path(query).name: [tuple(m.rsplit(":", 1)) for m in matches] for query, *matches in lines}  # type: ignore[misc]


def golden_features(name: str) -> dict[str, list[list[str]]]:
    """Photo → one row of 15 printed numbers per region: weight, then features."""
    photos: dict[str, list[list[str]]] = {}
    for fields in (line.split("\t") for line in (GOLDEN / name).read_text().splitlines()):
        if len(fields) == 2:
            photo = photos[fields[0]] = []
        else:
            photo.append(fields)
    return photos


@cache
def photo_paths() -> dict[str, Path]:
    return {path.name: path for path in FERRET.rglob("*.jpg")}


def keep_original(folder: Path, projections: Path, path: Path) -> None:
    """The original's own binary files: per image (regions, first region), per region a weight, a gap, the features."""
    (count,) = struct.unpack_from("<i", listing := (folder / "map_corel.map").read_bytes())
    names, at = [], 4
    for _ in range(count):
        (length,) = struct.unpack_from("<i", listing, at)
        names.append(listing[at + 4 : at + 3 + length].decode())
        at += 4 + length
    raw = (folder / "corel.raw").read_bytes()
    sizes = np.frombuffer(raw, np.int32, 2 * count).reshape(-1, 2)[:, 0]
    regions = np.frombuffer(raw, np.float32, offset=8 * count).reshape(-1, 2 + FEATURES)
    parts = [(0, regions[:, 0], regions[:, 2:])]
    save(path, whole("names", names), starts_of(sizes), parts, load_projections(projections))


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def opened(**options: Any) -> Ferret:
    app = Ferret(FerretOptions(**options))
    app.prepare()
    app.setup()
    return app


def ask(app: Ferret, query: str) -> list[dict[str, Any]]:
    (item,) = app.items(photo_paths()[query])
    value: Any = item
    for stage in app.stages:
        value = getattr(app, stage.name)(value)
    result = app.encode_result(value)
    assert result["query"] == query
    matches: list[dict[str, Any]] = result["matches"]
    return matches


def assert_as_original(matches: list[dict[str, Any]], wanted: list[tuple[str, str]]) -> None:
    assert [match["image"] for match in matches] == [image for image, _ in wanted]
    distances = [float(distance) for _, distance in wanted]
    # The original's database came from features printed with 7 digits: identical photos are 4e-7 apart there.
    assert [match["distance"] for match in matches] == pytest.approx(distances, rel=2.3e-5, abs=1e-6)


@pytest.mark.parametrize("name", ["queries.txt", "bsds500_features_first100.txt"])
def test_features_are_the_originals_to_the_last_digit_it_printed(name: str) -> None:
    kernel = load_kernel("fast")
    for photo, rows in golden_features(name).items():
        loaded = read_photo(photo_paths()[photo], photo)
        weights, features = extract(loaded.hsv, segment(loaded.rgb, kernel), kernel)
        assert [[f"{value:.7g}" for value in row] for row in np.column_stack((weights, features))] == rows, photo


@pytest.mark.parametrize("top_k", [10, *(pytest.param(k, marks=pytest.mark.long) for k in (5, 50))])
def test_ordered_lists_are_the_originals_with_both_kernels(top_k: int) -> None:
    wanted = answers(f"bsds500_first30_top{top_k}.txt")
    options = {"images": FERRET / "bsds500", "projections": GOLDEN / "lsh_bsds500.npz", "top_k": top_k}
    fast, exact = opened(kernel="fast", **options), opened(kernel="exact", **options)
    assert len(wanted) == 30
    for number, (query, matches) in enumerate(wanted.items()):
        found = ask(fast, query)
        assert_as_original(found, matches)
        if number < FIRST_QUERIES:
            assert ask(exact, query) == found


@pytest.mark.parametrize("case", [pytest.param("simdev", marks=pytest.mark.long), "test"])
def test_answers_from_the_originals_own_database_are_its_own(case: str, tmp_path: Path) -> None:
    keep_original(FERRET / f"parsec_{case}" / "corel", GOLDEN / "lsh_simdev.npz", tmp_path / "original.npz")
    app = opened(database=tmp_path / "original.npz", kernel="fast", top_k=5)
    for query, matches in answers(f"parsec_{case}_top5.txt").items():
        assert_as_original(ask(app, query), matches)
