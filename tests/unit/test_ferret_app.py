"""Ferret from photo to answer, on small pictures made here; its photos and its databases."""

import base64
import os
import pickle
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from apps import samples
from apps.data_sets.ingest import keep
from apps.data_sets.npz import whole
from apps.ferret import Ferret, FerretOptions
from apps.ferret import database as module
from apps.ferret.app import images_of
from apps.ferret.database import load_database, save
from apps.ferret.lsh import draw_projections
from apps.ferret.values import Photo, Unreadable, list_photos
from apps.samples import cache_dir, sample_photos
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
    with pytest.raises(RecomposeError, match=r"photos are no longer in .*; set option queries"):
        list(opened(database=tmp_path / "db").items(None))
    with pytest.raises(RecomposeError, match=r"index\.npz' does not record its photos' folder; set option queries"):
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
    with pytest.raises(RecomposeError, match=r"2\.png cannot be decoded as a picture"):
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
        ({"query": "x", "image": "aGVsbG8="}, "x cannot be decoded as a picture"),
    ],
)
def test_a_bad_pushed_item_is_refused_with_a_sentence(value: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence.replace("{", r"\{")):
        Ferret().from_json(value)


DRAWN = draw_projections()

FEATURES = np.random.default_rng(0).normal(0, 1, (6, 14)).astype(np.float32)
WEIGHTS = np.array([1, 1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3], np.float32)
STARTS = np.array([0, 1, 3, 6])


def saved(path: Path) -> None:
    """Three images, with one, two and three regions."""
    save(path, whole("names", ["0.png", "1.png", "2.png"]), STARTS, [(0, WEIGHTS, FEATURES)], DRAWN)


def test_what_is_saved_is_what_is_loaded(tmp_path: Path) -> None:
    saved(tmp_path / "new" / "db.npz")
    loaded = load_database(tmp_path / "new" / "db.npz")
    assert loaded.names == ("0.png", "1.png", "2.png")
    assert loaded.projections.fingerprint == DRAWN.fingerprint
    for found, kept in ((loaded.starts, STARTS), (loaded.weights, WEIGHTS), (loaded.features, FEATURES)):
        assert (found == kept).all()
    assert loaded.index.near(FEATURES, 1).tolist() == [*range(6)], "each is the nearest to itself"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["db.npz"]


@pytest.mark.parametrize("fault", ["missing", "text", "torn", "version"])
def test_what_is_no_database_is_refused(tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "db.npz"
    if fault == "text":
        path.write_text("images")
    elif fault != "missing":
        with monkeypatch.context() as patch:
            patch.setattr(module, "FORMAT", 0 if fault == "version" else module.FORMAT)
            saved(path)
    if fault == "torn":
        path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(RecomposeError, match=r"db\.npz' is no Ferret database .* with the option images"):
        load_database(path)


def test_it_may_be_read_by_those_who_may_read_what_lies_beside_it(tmp_path: Path) -> None:
    saved(tmp_path / "a.npz")
    (tmp_path / "beside").write_text("")
    assert (tmp_path / "a.npz").stat().st_mode == (tmp_path / "beside").stat().st_mode
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "beside"]


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["val/1.jpg", "test/9.JPG", "notes.txt", "2.png"], ["2.png", "9.JPG", "1.jpg"]),
        (["a/1.jpg", "b/1.jpg", "b/2.jpg"], ["a/1.jpg", "b/1.jpg", "2.jpg"]),
    ],
)
def test_photos_of_subfolders_go_by_names_that_tell_them_apart(tmp_path: Path, files: Any, names: Any) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [name for name, _ in list_photos(tmp_path)] == names


def test_no_photos_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RecomposeError, match=r"has no photos; give one with \.bmp, \.jpeg, \.jpg"):
        list_photos(tmp_path)
    with pytest.raises(RecomposeError, match="does not exist; give a folder of photos"):
        list_photos(tmp_path / "nowhere")


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


def test_without_a_cache_there_is_a_private_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "tmp"))
    assert cache_dir().parent == tmp_path / "tmp"
    assert cache_dir().stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("to", ["folder", "nowhere", "file"])
def test_a_link_in_place_of_that_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str) -> None:
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
    with pytest.raises(RecomposeError, match="is no folder; set XDG_CACHE_HOME to a folder of your own"):
        cache_dir()
