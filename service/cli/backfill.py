"""``recompose backfill``: run an app's stages over a table, as a Spark job."""

import json
from pathlib import Path
from typing import Any

import click

from service.cli import render
from service.cli.check import apps_option
from service.cli.texts import FOLDER, app_options, master_option


@click.command()
@click.argument("app")
@click.option("--table", required=True, help="Folder of a Delta table or of Parquet files, or one such file.")
@click.option("--by", required=True, help="Column whose values bound the range and name the results.")
@click.option("--from", "begin", help="Smallest value of the column --by (default: all rows).")
@click.option("--to", "end", help="Value of the column --by at which the range ends, itself not included.")
@click.option("--out", type=FOLDER, help="Folder of the results (default backfill/APP).")
@click.option("--schema", help="Columns of the results as DDL, such as 'name STRING, n INT' (default: JSON).")
@click.option("--chunk-rows", type=click.IntRange(1), default=50_000, show_default=True, help="Rows for each commit.")
@app_options
@apps_option
@master_option
def backfill(
    app: str,
    table: str,
    by: str,
    begin: str | None,
    end: str | None,
    out: Path | None,
    schema: str | None,
    chunk_rows: int,
    options: dict[str, Any],
    apps_dirs: tuple[Path, ...],
    master: str | None,
) -> None:
    """Compute APP's results of the rows of a table, into a table; interrupted, it goes on where it was."""
    from datapipe.datasets.backfill import Into, Range  # imported here, as Arrow takes a moment
    from datapipe.datasets.backfill import backfill as run
    from datapipe.spark.session import FIRST_COMPILER, SETTINGS, open_session, told_in_a_sentence
    from service.runner.backfill import Stages
    from service.runner.telemetry.accounts import version_of_app

    folders = tuple(str(each.resolve()) for each in apps_dirs)
    work = Stages(app, json.dumps(options, sort_keys=True), folders)
    made = work.app()
    made.prepare()
    out = (out or Path("backfill") / app).absolute()
    of = Range(str(Path(table).absolute()), by, begin, end, app, version_of_app(type(made)))
    session = open_session("recompose backfill", master, SETTINGS | FIRST_COMPILER)
    failed = told_in_a_sentence(f"the backfill into {str(out)!r} failed")
    with session as spark, failed, render.spinner() as bar:
        task = bar.add_task("cutting the range")

        def tell(done: int, chunks: int) -> None:
            bar.update(task, description=f"chunk {done} of {chunks}")

        count = run(spark, of, work, Into(out, schema, chunk_rows), tell)
    click.echo(f"{out}: {count:,} results added")
