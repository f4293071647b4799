"""Batch aggregation of generated telemetry: 10 million items of four stages, and twice as many.

python -m benchmarks.telemetry_batch [--millions 10] [--folder DIR] [--json]
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.harness import Goal, Table, report
from datapipe.session import open_session
from datapipe.telemetry.schema import INSTANT, SCHEMAS, STAGE, SUFFIX
from datapipe.telemetry.store import put_whole, raw
from datapipe.telemetry.windows import batch_table
from datapipe.telemetry.writer import write_atomically

STAGES = ("segment", "extract", "vectorize", "rank")
RATE_PER_S = 1000
IN_A_FILE = 500_000
EPOCH_US = 1_700_000_000_000_000


def generate(folder: Path, millions: float) -> None:
    """Items at 1,000 a second, in files of 500,000; the same at every call."""
    (folder / "items").mkdir(parents=True)
    for number in range(round(millions * 1e6 / IN_A_FILE)):
        write_atomically(_items(number), folder / "items" / f"generated--{number:06d}{SUFFIX}")


def _items(number: int) -> Any:
    random = np.random.default_rng(number)
    serial = np.arange(number * IN_A_FILE, (number + 1) * IN_A_FILE)
    delivered = EPOCH_US + serial * 1_000_000 // RATE_PER_S
    latency = random.lognormal(10.0, 0.4, IN_A_FILE).astype(np.int64)
    work = random.lognormal(14.0, 0.3, IN_A_FILE * len(STAGES)).astype(np.int64)
    names = pa.DictionaryArray.from_arrays(np.tile(np.arange(4, dtype=np.int32), IN_A_FILE), list(STAGES))
    stages = pa.StructArray.from_arrays([names.cast(pa.string()), pa.array(work), pa.array(work)], fields=list(STAGE))
    offsets = pa.array(np.arange(0, IN_A_FILE * 4 + 1, 4, dtype=np.int32))
    constants = {"app": "generated", "run": "r", "composition": "13", "outcome": "delivered"}
    columns: dict[str, Any] = {name: pa.repeat(value, IN_A_FILE) for name, value in constants.items()}
    columns |= {
        "serial": pa.array(serial),
        "arrived": pa.array(delivered - latency).cast(INSTANT),
        "delivered": pa.array(delivered).cast(INSTANT),
        "batch": pa.array(np.ones(IN_A_FILE, np.int32)),
        "target_us": pa.array(np.full(IN_A_FILE, 20_000)),
        "threshold": pa.array(np.full(IN_A_FILE, 0.2)),
        "stages": pa.ListArray.from_arrays(offsets, stages),
    }
    return pa.table(columns, schema=SCHEMAS["items"])


def aggregate(spark: Any, source: Path, out: Path) -> float:
    """Seconds for the whole table, written."""
    began_s = perf_counter()
    put_whole(batch_table(raw(spark, source)), out)
    return perf_counter() - began_s


def measure(folder: Path, millions: float, rounds: int) -> list[Table]:
    once, twice = f"{millions:g} million items", f"{2 * millions:g} million items"
    sources = {once: folder / "once", twice: folder / "twice"}
    generate(sources[once], millions)
    generate(sources[twice], 2 * millions)
    table = Table("batch aggregation", "s", [Goal("twice the records, times the time", twice, once, 2.2, True)])
    spark = open_session("telemetry benchmark", "local[2]")
    try:
        calls = {name: partial(aggregate, spark, source, folder / "out") for name, source in sources.items()}
        table.run(calls, rounds)
    finally:
        spark.stop()
    return [table]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--millions", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="for the generated files (4 GB); default: a temporary one")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        report(measure(Path(folder), arguments.millions, arguments.rounds), arguments.json)


if __name__ == "__main__":
    main()
