"""``recompose ingest`` and ``backfill``: bring the data set of an app up to date, and run its stages over a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from service import logs
from service.cli import render
from service.cli.check import apps_option
from service.cli.texts import FOLDER, app_options, spark_option

NAMED = 20
"""Number of skipped files that are named; the others are only counted."""

if TYPE_CHECKING:
    from apps.data_sets.files import Place
    from apps.data_sets.ingest import Ingested
    from apps.data_sets.work import Engine
    from datapipe.datasets.ingest import MakeRecipe


@click.command()
@click.argument("app")
@click.argument("folder", required=False)
@click.option("--out", type=FOLDER, help="Folder of the data set (default data-sets/APP).")
@app_options
@apps_option
@spark_option
@click.option("--no-spark", is_flag=True, help="Run in this process: for few files, or if Java is missing.")
def ingest(
    app: str,
    folder: str | None,
    out: Path | None,
    options: dict[str, Any],
    apps_dirs: tuple[Path, ...],
    master: str | None,
    no_spark: bool,
) -> None:
    """Make APP's data set from the files in FOLDER (a folder, or a URL of an object store).

    A repeated call computes only new and changed files.
    """
    from apps.data_sets.files import Place  # imported here, as Arrow takes a moment to load
    from apps.data_sets.ingest import ingest as run
    from datapipe.datasets.ingest import recipe_of

    logs.configure("warning")
    make_recipe = partial(recipe_of, app, options, apps_dirs)
    recipe = make_recipe()
    place = Place(folder if folder is not None else recipe.folder)
    place.list(recipe.suffixes)  # a folder that cannot be a data set is refused before Spark takes seconds to start
    out = out or Path("data-sets") / app
    with _engine(make_recipe, place, master, no_spark) as engine, _progress() as tell:
        done = run(recipe, place, out, engine, tell)
    click.echo(_sentence(out, done))
    if skipped := place.skipped(recipe.suffixes):
        known, more = ", ".join(sorted(recipe.suffixes)), len(skipped) - NAMED
        named = ", ".join(skipped[:NAMED]) + (f" and {more:,} more" if more > 0 else "")
        click.echo(f"skipped, as their names do not end in {known}: {named}")


@contextmanager
def _engine(make_recipe: MakeRecipe, place: Place, master: str | None, no_spark: bool) -> Iterator[Engine]:
    """Yield Spark if it is wanted; if it is not available, use this process and say so."""
    from apps.data_sets.work import in_process
    from datapipe.datasets.ingest import on_spark
    from datapipe.spark.session import FIRST_COMPILER, SETTINGS, NoJava, NoSpark, open_session

    session = nullcontext()
    try:
        session = session if no_spark else open_session("recompose ingest", master, SETTINGS | FIRST_COMPILER)
    except (NoJava, NoSpark) as error:
        if master is not None:
            raise
        render.console(stderr=True).print(f"{error}; the features are computed in this process")
    with session as spark:
        yield on_spark(spark, make_recipe, place) if spark is not None else in_process(make_recipe(), place)


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with render.progress(*columns) as bar:
        task = bar.add_task("computing features of files", total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def _sentence(out: Path, done: Ingested) -> str:
    parts = [f"{done.computed} files computed", f"{done.kept} kept", f"{done.gone} gone"]
    if done.quarantined:
        parts.append(f"{done.quarantined} in quarantine ({out}/versions/{done.version}/quarantine.parquet)")
    return f"{out}: version {done.version}, {done.rows} rows; {', '.join(parts)}"


@click.command()
@click.argument("app")
@click.option("--table", required=True, help="Folder of a Delta table or of Parquet files, or one such file.")
@click.option(
    "--by",
    help="Column that --from and --to refer to; its values identify the rows of the results (default: the table's "
    "only timestamp column, or its only integer column).",
)
@click.option("--from", "begin", help="Smallest value of the column --by (default: all rows).")
@click.option("--to", "end", help="End of the range in column --by, exclusive (default: all rows).")
@click.option("--out", type=FOLDER, help="Folder of the results (default backfill/APP).")
@click.option("--schema", help="Columns of the results as DDL, such as 'name STRING, n INT' (default: JSON).")
@click.option("--chunk-rows", type=click.IntRange(1), default=50_000, help="Rows computed per commit.")
@app_options
@apps_option
@spark_option
def backfill(
    app: str,
    table: str,
    by: str | None,
    begin: str | None,
    end: str | None,
    out: Path | None,
    schema: str | None,
    chunk_rows: int,
    options: dict[str, Any],
    apps_dirs: tuple[Path, ...],
    master: str | None,
) -> None:
    """Compute APP's results over the rows of a table, and write them into a table.

    An interrupted job continues at the next call.
    """
    from datapipe.datasets.backfill import Into, Range, column_of  # imported here, as Arrow takes a moment to load
    from datapipe.datasets.backfill import backfill as run
    from datapipe.spark.session import FIRST_COMPILER, SETTINGS, open_session, told_in_a_sentence
    from service.runner.backfill import Stages
    from service.runner.telemetry.accounts import version_of_app

    folders = tuple(str(each.resolve()) for each in apps_dirs)
    work = Stages(app, json.dumps(options, sort_keys=True), folders)
    made = work.app()
    made.prepare()
    out = (out or Path("backfill") / app).absolute()
    place = str(Path(table).absolute())
    of = Range(place, by or column_of(place), begin, end, app, version_of_app(type(made)))
    session = open_session("recompose backfill", master, SETTINGS | FIRST_COMPILER)
    failed = told_in_a_sentence(f"the backfill into {str(out)!r} failed")
    with session as spark, failed, render.doing("cutting the range") as say:
        into = Into(out, schema, chunk_rows)
        count = run(spark, of, work, into, lambda done, chunks: say(f"chunk {done} of {chunks}"))
    click.echo(f"{out}: {count:,} results added")
