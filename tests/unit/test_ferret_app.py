"""Ferret from photo to answer, on small pictures made here."""

import base64
import pickle
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from pydantic import ValidationError

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


def test_both_kernels_answer_alike(photos: Path) -> None:
    exact, fast = opened(images=photos), opened(images=photos, kernel="fast")
    for item in exact.items(None):
        assert answer(exact, item) == answer(fast, item)


def test_equally_near_images_come_in_the_order_of_the_database(photos: Path) -> None:
    (photos / "5-copy.png").write_bytes((photos / "5.png").read_bytes())
    app = opened(images=photos, top_k=3)
    (item,) = app.items(photos / "5.png")
    assert [match["image"] for match in answer(app, item)["matches"][:2]] == ["5-copy.png", "5.png"]


def test_distances_have_six_digits(photos: Path) -> None:
    app = opened(images=photos)
    (item,) = app.items(photos / "0.png")
    distances = [match["distance"] for match in answer(app, item)["matches"]]
    assert distances == [float(f"{distance:g}") for distance in distances]
    assert distances == sorted(distances)


def test_queries_of_another_folder_are_asked(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "q").mkdir()
    (tmp_path / "q" / "mine.png").write_bytes((photos / "3.png").read_bytes())
    app = opened(images=photos, queries=tmp_path / "q", top_k=1)
    assert [answer(app, item) for item in app.items(None)] == [
        {"query": "mine.png", "matches": [{"image": "3.png", "distance": 0.0}]}
    ]


def test_a_query_unlike_everything_has_no_matches(photos: Path) -> None:
    app = opened(images=photos)
    (item,) = app.items(photos / "0.png")
    signature = app.extract(app.segment(item))
    far = signature._replace(features=signature.features + np.float32(1000))
    assert app.encode_result(app.rank(app.vectorize(far))) == {"query": "0.png", "matches": []}


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
    with pytest.raises(RecomposeError, match=r"index\.npz' does not tell its photos; give queries"):
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


def test_a_worker_without_the_kept_database_builds_it(photos: Path) -> None:
    app = Ferret(FerretOptions(images=photos, top_k=1))
    app.setup()
    assert len(answer(app, next(app.items(None)))["matches"]) == 1


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
        ({"query": "x"}, 'a Ferret item is {"query": NAME, "image": BASE64'),
        ({"query": "x", "image": 7}, 'a Ferret item is {"query": NAME, "image": BASE64'),
        ({"query": "x", "image": "%%%"}, "image of query 'x' is not base64"),
        ({"query": "x", "image": "é"}, "image of query 'x' is not base64"),
        ({"query": "x", "image": "aGVsbG8="}, "x is no picture that can be decoded"),
    ],
)
def test_a_bad_pushed_item_is_refused_with_a_sentence(value: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence.replace("{", r"\{")):
        Ferret().from_json(value)


@pytest.mark.parametrize("options", [{"top_k": 0}, {"kernel": "quick"}, {"photos": "x"}, {"top_k": 1001}])
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        FerretOptions(**options)


def test_a_database_file_and_a_folder_exclude_each_other() -> None:
    with pytest.raises(ValidationError, match="brings its own images and projections"):
        FerretOptions(database=Path("db.npz"), images=Path("photos"))
