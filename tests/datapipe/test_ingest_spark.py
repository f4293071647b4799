"""Data sets made by Spark: equal to what one process makes, and to the original program's; killed and started again."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import cv2
import numpy as np
import pyarrow.dataset as ds
import pytest
from py4j.protocol import Py4JError

from apps.data_sets.files import Place
from apps.data_sets.ingest import ingest, keep
from apps.ferret import Ferret, FerretOptions
from datapipe.datasets.ingest import on_spark, recipe_of
from lab.benchmarks.ingest_rate import content

DATA = os.environ.get("RECOMPOSE_DATA")
FERRET = Path(DATA or ".") / "ferret"
needs_data = pytest.mark.skipif(not DATA, reason="RECOMPOSE_DATA is not set: the original's answers are not here")


def write_photos(folder: Path, count: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        coarse = np.random.default_rng(number).integers(0, 256, (3, 4, 3), dtype=np.uint8)
        cv2.imwrite(str(folder / f"{number:03d}.png"), coarse.repeat(30, 0).repeat(40, 1))
    return folder


def test_spark_and_one_process_make_the_same_files(spark: Any, tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", 40)
    (photos / "013.png").write_text("no picture")
    (photos / "loop").symlink_to(photos)
    with open(os.fsencode(photos) + b"/\xff.png", "wb") as odd:
        odd.write((photos / "000.png").read_bytes())
    make, place = partial(recipe_of, "ferret", {"images": str(photos)}), Place(photos)
    done = ingest(make(), place, tmp_path / "spark", on_spark(spark, make, place))
    assert (done.computed, done.quarantined) == (41, 2)
    keep(make(), photos, tmp_path / "alone")
    assert content(tmp_path / "spark") == content(tmp_path / "alone")
    table = spark.read.parquet(str(tmp_path / "spark" / "versions" / "1" / "features"))
    assert table.select("path").distinct().count() == 39
    for number in (200, 201):
        (photos / f"{number}.png").write_bytes((photos / "000.png").read_bytes())
    assert ingest(make(), place, tmp_path / "spark", on_spark(spark, make, place)).computed == 2


@needs_data
@pytest.mark.long  # for every change: tests/integration/test_ferret_golden.py
def test_features_and_answers_are_the_originals(spark: Any, tmp_path: Path) -> None:
    options = {"projections": str(FERRET / "golden" / "lsh_bsds500.npz")}
    photos, out = Place(FERRET / "bsds500"), tmp_path / "out"
    make = partial(recipe_of, "ferret", options)
    assert ingest(make(), photos, out, on_spark(spark, make, photos)).computed == 500
    rows = ds.dataset(out / "versions" / "1" / "features", format="parquet").to_table().to_pylist()
    mine: dict[str, list[tuple[int, list[float]]]] = {}
    for row in rows:
        mine.setdefault(Path(row["path"]).name, []).append((row["row"], [row["weight"], *row["features"]]))
    golden = golden_features()
    assert len(golden) == 100
    for photo, wanted in golden.items():
        found = [values for _, values in sorted(mine[photo])]
        assert len(found) == len(wanted), photo
        np.testing.assert_allclose(found, wanted, atol=0.05)
    app = Ferret(FerretOptions(database=out, kernel="fast"))
    app.prepare()
    app.setup()
    for line in (FERRET / "golden" / "bsds500_first30_top10.txt").read_text().splitlines():
        query, *matches = line.split("\t")
        (item,) = app.items(next(FERRET.rglob(Path(query).name)))
        answer = app.rank(app.vectorize(app.extract(app.segment(item))))
        assert [name for name, _ in answer.matches] == [match.rsplit(":", 1)[0] for match in matches]


class Cancelled:
    """A session whose job ends by Ctrl-C, as PySpark tells it; everything else returns itself."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self

    def collect(self) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise Py4JError("job cancelled")  # noqa: B904 - as it is done there


def test_ctrl_c_is_an_interruption_and_no_failure_of_spark(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", 2)
    make, place = partial(recipe_of, "ferret", {"images": str(photos)}), Place(photos)
    with pytest.raises(KeyboardInterrupt):
        ingest(make(), place, tmp_path / "out", on_spark(Cancelled(), make, place))
    assert not (tmp_path / "out").exists()


def golden_features() -> dict[str, list[list[float]]]:
    photos: dict[str, list[list[float]]] = {}
    for fields in map(str.split, (FERRET / "golden" / "bsds500_features_first100.txt").read_text().splitlines()):
        if len(fields) == 2:
            photo = photos[fields[0]] = []
        else:
            photo.append([float(field) for field in fields])
    return photos


@pytest.mark.parametrize("kills", [1, pytest.param(4, marks=pytest.mark.long)])
def test_a_job_killed_at_any_moment_ends_in_the_same_data_set(tmp_path: Path, kills: int) -> None:
    """Processes, so that a kill is one; without Spark, whose part in it is only to compute records."""
    photos = write_photos(tmp_path / "photos", 60)
    command = [sys.executable, "-m", "service.cli", "ingest", "ferret", str(photos), "--no-spark", "--out"]
    chance = random.Random(1)
    began_s = monotonic()
    subprocess.run([*command, str(tmp_path / "wanted")], check=True, capture_output=True)
    whole_s = monotonic() - began_s
    for _ in range(kills):
        job = subprocess.Popen([*command, str(tmp_path / "out")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        sleep(chance.uniform(0.5, 1.0) * whole_s)
        job.kill()
        job.wait()
    subprocess.run([*command, str(tmp_path / "out")], check=True, capture_output=True)
    assert content(tmp_path / "out") == content(tmp_path / "wanted")
    assert not (tmp_path / "out" / "staging").exists()
