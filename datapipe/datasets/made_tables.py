"""The tables of the TPCx-BB queries, made on Spark: each chunk where an executor is free, with the rows of one process.

python -m datapipe.datasets.made_tables FOLDER --rows 1000000000 [--master spark://host:7077]
"""

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from apps.tpcxbb.generate import STREAMS, Plan, add_plan, plan_of
from apps.tpcxbb.tables import MAKERS, Form, write_dimensions
from compositions.errors import RecomposeError
from datapipe.spark.session import open_session, told_in_a_sentence


def write_on_spark(spark: Any, folder: Path, plan: Plan, form: Form) -> None:
    """As ``apps.tpcxbb.tables.write``; a stream is a folder, with a part for each chunk, in order of their names. The
    folder is one that all executors see. Raises: RecomposeError when it cannot be written, or is there."""
    from pyspark.sql.pandas.types import from_arrow_schema

    write_dimensions(folder, plan, form)
    for table, stream in STREAMS.items():
        with told_in_a_sentence(f"table {table} cannot be made on Spark"):
            chunks = spark.range(0, plan.chunks, 1, plan.chunks)  # a partition each, which is a part in the folder
            rows = chunks.mapInArrow(partial(_made, plan, table), from_arrow_schema(stream.columns))
            rows.write.format(form).option("header", True).save(str(folder / f"{table}.{form}"))


def _made(plan: Plan, table: str, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        yield from (MAKERS[table](plan, chunk) for chunk in batch.column(0).to_pylist())


def main() -> int:
    prog = "python -m datapipe.datasets.made_tables"
    parser = argparse.ArgumentParser(prog=prog, description="Generate the tables on Spark.")
    add_plan(parser)
    parser.add_argument("--master", help="Spark master (default: this machine's cores).")
    given = parser.parse_args()
    try:
        with open_session("recompose tables", given.master) as spark:
            write_on_spark(spark, given.folder, plan_of(given), given.form)
    except RecomposeError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
