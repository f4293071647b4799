"""``recompose ingest``: what it prints, and what it refuses in one sentence."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from click.testing import CliRunner, Result

from datapipe.spark import session
from service.cli import main

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(3):
        coarse = np.random.default_rng(number).integers(0, 256, (3, 4, 3), dtype=np.uint8)
        cv2.imwrite(str(folder / f"{number}.png"), coarse.repeat(30, 0).repeat(40, 1))
    (folder / "broken.jpg").write_bytes(b"")
    (folder / "notes.txt").write_text("no photo")
    return folder


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["ingest", *map(str, arguments)])


def test_it_says_what_it_did_and_where_the_rest_is(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = run("ferret", photos, "--out", out, "--no-spark")
    assert first.exit_code == 0, first.output
    assert "4 files computed, 0 kept, 0 gone, 1 in quarantine" in first.output
    assert (out / "versions/1/quarantine.parquet").exists()
    assert "skipped, as their names do not end in .bmp, " in first.output
    assert first.output.rstrip().endswith(": notes.txt")
    again = run("ferret", photos, "--out", out, "--no-spark")
    assert f"{out}: version 1, " in again.output
    assert "0 files computed, 4 kept, 0 gone" in again.output


def test_without_java_it_works_in_process_and_says_so(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_candidates", lambda: iter(()))
    done = run("ferret", photos, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "Spark needs Java 17 or 21" in done.output
    assert "run make setup-java; the features are computed in this process" in done.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["ferret", "gone"], "gone' does not exist; give a folder, or the URL of one"),
        (["ferret", "empty"], "empty' has no files of a data set; those that end in .bmp"),
        (["ferret", "photos", "--master", "spark://127.0.0.1:9"], "'spark://127.0.0.1:9' cannot be reached"),
        (["ferret", "photos", "-o", "kernel=quick"], "options.kernel"),
        (["synthetic", "photos"], "app 'synthetic' has no data set to be made of files"),
        (["nobody", "photos"], "unknown app 'nobody'"),
        (["ferret", "photos", "--out", "photos"], "has other things in it; give a data set's, or a new one"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence_and_leaves_nothing(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    before = sorted(tmp_path.rglob("*"))
    spark = [] if "--master" in arguments else ["--no-spark"]
    refused = run(*arguments, *spark)
    assert refused.exit_code == 1
    assert sentence in str(refused.exception or "") + refused.output
    assert [path for path in sorted(tmp_path.rglob("*")) if "cache" not in path.parts] == before
