"""Ferret from photo to answer, on small pictures made here."""

import base64
import pickle
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from apps.data_sets.ingest import keep
from apps.ferret import Ferret, FerretOptions
from apps.ferret.values import Photo, Unreadable
from compositions.errors import RecomposeError

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Six pictures in three pairs that look alike."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(6):
        coarse = np.random.default_rng(number // 2).integers(0, 256, (3, 4, 3)).repeat(30, 0).repeat(40, 1)
        noise = np.random.default_rng(number).normal(0, 5, coarse.shape)
        cv2.imwrite(str(folder / f"{number}.png"), np.clip(coarse + noise, 0, 255).astype(np.uint8))
    return folder


def opened(**options: Any) -> Ferret:
    app = Ferret(FerretOptions(**options))
    app.prepare()
    app.setup()
    return app


def answer(app: Ferret, item: Any) -> dict[str, Any]:
    for stage in app.stages:
        item = pickle.loads(pickle.dumps(getattr(app, stage.name)(item), protocol=5))
    result: dict[str, Any] = app.encode_result(item)
    return result


def test_a_query_finds_itself_and_then_what_looks_like_it(photos: Path) -> None:
    app = opened(images=photos, top_k=2)
    for number, item in enumerate(app.items(None)):
        result = answer(app, item)
        twin = number + 1 if number % 2 == 0 else number - 1
        assert result["query"] == f"{number}.png"
        assert [match["image"] for match in result["matches"]] == [f"{number}.png", f"{twin}.png"]
        assert result["matches"][0]["distance"] == 0


def data_set(photos: Path, out: Path) -> None:
    keep(Ferret(FerretOptions(images=photos)).data_set(), photos, out)


def test_a_built_database_stands_in_for_the_folder(photos: Path, tmp_path: Path) -> None:
    data_set(photos, tmp_path / "db")
    app = opened(database=tmp_path / "db", top_k=2)
    assert [answer(app, item) for item in app.items(None)] == [
        answer(other, item) for other in [opened(images=photos, top_k=2)] for item in other.items(None)
    ]


def test_a_database_without_its_photos_needs_queries(photos: Path, tmp_path: Path) -> None:
    data_set(photos, tmp_path / "db")
    photos.rename(tmp_path / "elsewhere")
    with pytest.raises(RecomposeError, match=r"photos are no longer in .*; give queries"):
        list(opened(database=tmp_path / "db").items(None))
    with pytest.raises(RecomposeError, match=r"index\.npz' does not name its photos; give queries"):
        list(opened(database=tmp_path / "db/versions/1/index.npz").items(None))


def test_a_running_app_follows_its_database_and_ends_old_items_with_the_old_one(photos: Path, tmp_path: Path) -> None:
    data_set(photos, tmp_path / "db")
    app = opened(database=tmp_path / "db", top_k=100)
    item = next(app.items(None))
    underway = app.vectorize(app.extract(app.segment(item)))
    (photos / "0.png").rename(photos / "first.png")
    data_set(photos, tmp_path / "db")
    assert "first.png" in [match["image"] for match in answer(app, item)["matches"]]
    assert "0.png" in [image for image, _ in app.rank(underway).matches]


def test_a_file_that_is_no_picture_fails_in_the_first_stage_and_the_rest_go_on(photos: Path) -> None:
    (photos / "2.png").write_text("no picture")
    app = opened(images=photos)
    items = list(app.items(None))
    assert [type(item) for item in items] == [Photo, Photo, Unreadable, Photo, Photo, Photo]
    with pytest.raises(RecomposeError, match=r"2\.png is no picture that can be decoded"):
        app.segment(items[2])


def test_a_pushed_picture_is_a_query(photos: Path) -> None:
    app = opened(images=photos, top_k=1)
    encoded = base64.b64encode((photos / "4.png").read_bytes()).decode()
    result = answer(app, app.from_json({"query": "pushed", "image": encoded}))
    assert result == {"query": "pushed", "matches": [{"image": "4.png", "distance": 0.0}]}


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("4.png", 'a Ferret item is {"query": NAME, "image": BASE64'),
        ({"query": "x", "image": "%%%"}, "image of query 'x' is not base64"),
        ({"query": "x", "image": "aGVsbG8="}, "x is no picture that can be decoded"),
    ],
)
def test_a_bad_pushed_item_is_refused_with_a_sentence(value: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence.replace("{", r"\{")):
        Ferret().from_json(value)
