"""``recompose telemetry`` and ``report``: make tables and an HTML report from the telemetry of runners."""

import json
import signal
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from compositions.errors import RecomposeError
from datapipe.spark.session import FIRST_COMPILER, SETTINGS, open_session, told_in_a_sentence
from service.cli import render
from service.cli.texts import FOLDER, spark_option
from service.daemon.store.database import default_directory

NAME = "recompose telemetry"
LOOK_S = 0.5


@click.command()
@click.argument("source", type=click.Path(path_type=Path), required=False)
@click.option("--out", type=FOLDER, help="Folder of the tables (default SOURCE/tables).")
@click.option("--batch", is_flag=True, help="Build the table of windows once, from all records, and end.")
@click.option("--once", is_flag=True, help="Read the files that exist now, and end.")
@click.option("--wait", is_flag=True, help="If there are no files yet, wait for them instead of ending.")
@spark_option
@click.option("--sql", "query", help="Run this Spark SQL query over the tables, print rows as JSON lines, and end.")
@click.option("--state", type=click.Path(dir_okay=False, path_type=Path), hidden=True)
def telemetry(
    source: Path | None,
    out: Path | None,
    batch: bool,
    once: bool,
    wait: bool,
    master: str | None,
    query: str | None,
    state: Path | None,
) -> None:
    """Keep tables of the telemetry in folder SOURCE up to date, with windows of 1 s, 10 s and 1 min, until Ctrl-C."""
    source = source or default_directory() / "telemetry"
    out = out or source / "tables"
    from datapipe.telemetry.store import TABLE, some_files_of, table

    if query is not None:
        _ask(out, query, master)
        return
    while wait and not any((source / "items").glob("*.parquet")):
        time.sleep(LOOK_S)
    files = some_files_of(source, "items")
    with render.doing(f"starting Spark; {len(files)} files of items") as say, open_session(NAME, master) as spark:
        if batch:
            _batch(spark, source, out, say)
        else:
            _stream(spark, source, out, once, _told(say, state))
        count = table(spark, out).count()
    click.echo(f"{out / TABLE}: {count} windows")


def _ask(out: Path, query: str, master: str | None) -> None:
    from datapipe.telemetry.store import views

    with open_session(NAME, master, SETTINGS | FIRST_COMPILER) as spark, told_in_a_sentence("the query failed"):
        views(spark, out, query)
        for row in spark.sql(query).toJSON().toLocalIterator():
            click.echo(row)


def _batch(spark: Any, source: Path, out: Path, say: Any) -> None:
    from datapipe.telemetry import store, tables  # here: without Java or PySpark, open_session has already failed

    if (out / store.CHECKPOINT).exists():
        raise RecomposeError(f"{str(out)!r} belongs to a streaming job; give another folder with --out")
    say("aggregating all records")
    with told_in_a_sentence(f"cannot make the table in {str(out)!r}"):
        tables.put_whole(tables.raw(spark, source), out)


def _stream(spark: Any, source: Path, out: Path, once: bool, tell: Callable[[dict[str, Any]], None]) -> None:
    from datapipe.telemetry import store, tables

    if (out / store.TABLE).exists() and not (out / store.CHECKPOINT).exists():
        raise RecomposeError(f"{str(out)!r} was made by --batch; give another folder with --out")
    stop = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: stop.set())
    try:
        with told_in_a_sentence("the streaming job failed"):
            tables.LiveTables(spark, source, out, tell).run(once=once, wait=lambda: stop.wait(LOOK_S))
    finally:
        signal.signal(signal.SIGINT, before)


def _told(say: Any, state: Path | None) -> Callable[[dict[str, Any]], None]:
    """Return a function that reports the job's progress to the terminal and, in the file ``state``, to the service."""

    def tell(seen: dict[str, Any]) -> None:
        say("reading the first files" if seen["batch"] is None else f"batch {seen['batch']}: {seen['records']} records")
        if state is not None:
            draft = state.with_name(f".{state.name}.draft")
            draft.write_text(json.dumps(seen))
            draft.replace(state)

    return tell


FORMATS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"]


@click.command()
@click.argument("app", required=False)
@click.option(
    "--from", "source", type=click.Path(path_type=Path), help="Folder of telemetry or tables (default: the service's)."
)
@click.option("--run", help="Report only this run.")
@click.option("--since", type=click.DateTime(FORMATS), help="Start of period, in local time unless it has an offset.")
@click.option("--until", type=click.DateTime(FORMATS), help="End of the period.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("report.html"), help="HTML file.")
@click.option("--png", "pngs", type=FOLDER, help="Folder to write each plot to, as a PNG file.")
def report(
    app: str | None,
    source: Path | None,
    run: str | None,
    since: datetime | None,
    until: datetime | None,
    out: Path,
    pngs: Path | None,
) -> None:
    """Write a report on APP with plots and decisions, or a table of all apps, into one self-contained HTML file."""
    # imported here: plots take a second to load, which a usage error should not cost
    from datapipe.report.build import build, fleet, write_whole
    from datapipe.report.data import Period, load

    folder, period = source or default_directory() / "telemetry", Period(since, until, run)
    data = None if app is None else load(folder, app, period)
    page = fleet(folder, period) if data is None else build(data, pngs)
    try:
        write_whole(out, page.encode())
    except OSError as error:
        raise RecomposeError(f"cannot write {str(out)!r}: {error.strerror}; give another --out") from error
    counts = "" if data is None else f": {sum(data.counts.values()):,} items, {len(data.decisions)} decisions"
    click.echo(f"{out}{counts}")
