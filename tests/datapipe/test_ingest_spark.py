"""Data sets made by Spark: equal to what one process makes; killed and started again."""

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
import pytest
from py4j.protocol import Py4JError

from apps.data_sets.files import Place
from apps.data_sets.ingest import ingest, keep
from datapipe.datasets.ingest import on_spark, recipe_of
from lab.benchmarks.ingest_rate import content


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
