"""Make Ferret's data set with the exact kernel, with Spark on all cores and in one process; and kill such a job.

Each rate is that of whole passes over the photos.

    python -m lab.benchmarks.ingest_rate [--photos DIR] [--rounds 2] [--kills 10] [--json]
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from time import perf_counter, sleep
from typing import Annotated

import pyarrow as pa

from apps.data_sets.files import Place
from apps.data_sets.recipe import TASKS, Recipe
from apps.data_sets.work import records
from apps.samples import sample_photos
from datapipe.datasets.ingest import on_spark, recipe_of
from datapipe.spark.session import open_session
from lab.benchmarks.harness import Rounds, Rows, Table, at_least, cores, main

ONE, SPARK = "one process", "Spark, all cores"


def tasks_of(place: Place, recipe: Recipe) -> pa.Table:
    files = place.list(recipe.suffixes)
    return files.append_column("known", pa.nulls(files.num_rows, pa.string())).cast(TASKS)


def one_process(recipe: Recipe, place: Place, tasks: pa.Table) -> int:
    return sum(records(recipe, place, batch).num_rows for batch in tasks.to_batches(max_chunksize=16))


def rate(compute: Callable[[], int]) -> float:
    began_s = perf_counter()
    return compute() / (perf_counter() - began_s)


def rates(photos: Path, rounds: int) -> Table:
    """Measure after the JVM and its Python processes have started."""
    make, place = partial(recipe_of, "ferret", {"kernel": "exact"}), Place(photos)
    recipe = make()
    tasks = tasks_of(place, recipe)
    table = Table("data set of Ferret", "photos/s", [at_least("Spark, times one process", SPARK, 1.7, ONE)])
    spark, scratch = open_session("ingest benchmark", f"local[{cores()}]"), tempfile.TemporaryDirectory()
    try:
        engine, staging = on_spark(spark, make, place), Path(scratch.name)
        list(engine(tasks.slice(0, 32), staging))
        calls = {
            ONE: lambda: rate(lambda: one_process(recipe, place, tasks)),
            SPARK: lambda: rate(lambda: sum(engine(tasks, staging))),
        }
        return table.run(calls, rounds)
    finally:
        spark.stop()
        scratch.cleanup()


def killed(photos: Path, folder: Path, kills: int) -> Rows:
    """Kill a job at random moments, again and again, and then let it end."""
    command = [sys.executable, "-m", "service.cli", "ingest", "ferret", str(photos), "--out"]
    began_s = perf_counter()
    subprocess.run([*command, str(folder / "wanted")], check=True, capture_output=True)
    whole_s, chance = perf_counter() - began_s, random.Random(1)
    for _ in range(kills):
        job = subprocess.Popen([*command, str(folder / "killed")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        sleep(chance.uniform(0, whole_s))
        job.kill()
        job.wait()
    subprocess.run([*command, str(folder / "killed")], check=True, capture_output=True)
    same = content(folder / "killed") == content(folder / "wanted")
    return Rows("a job that is killed", [{"kills": kills, "seconds of a job": whole_s}], {"the same data set": same})


def content(out: Path) -> dict[str, str]:
    """Return the checksum of every file of the current version."""
    root = out / "versions" / str(json.loads((out / "manifest.json").read_text())["version"])
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): sha256(path.read_bytes()).hexdigest() for path in files}


def measure(
    photos: Annotated[Path | None, "folder (default: the sample photos)"] = None, rounds: Rounds = 2, kills: int = 0
) -> Iterator[Table | Rows]:
    photos = photos or sample_photos()
    if kills:
        with tempfile.TemporaryDirectory() as folder:
            yield killed(photos, Path(folder), kills)
    yield rates(photos, rounds)


if __name__ == "__main__":
    main(measure)
