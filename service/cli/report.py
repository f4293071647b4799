"""``recompose report``: what an app did, as one HTML file."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from compositions.errors import RecomposeError
from service.daemon.storing.database import default_directory

FORMATS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"]


@click.command()
@click.argument("app")
@click.option("--from", "source", type=click.Path(path_type=Path), help="Folder with telemetry; default: the daemon's.")
@click.option("--since", type=click.DateTime(FORMATS), help="Local time, unless it says otherwise.")
@click.option("--until", type=click.DateTime(FORMATS), help="Before this instant.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("report.html"), show_default=True)
@click.option("--png", "pngs", type=click.Path(file_okay=False, path_type=Path), help="Folder for each plot as PNG.")
def report(
    app: str, source: Path | None, since: datetime | None, until: datetime | None, out: Path, pngs: Path | None
) -> None:
    """Writes what APP did, with plots and decisions, into one HTML file that needs no network."""
    from datapipe.report.build import (
        build,
        write_whole,
    )  # imported here: plots take a second that a usage error need not
    from datapipe.report.data import Period, load

    run = load(source or default_directory() / "telemetry", app, Period(since, until))
    try:
        write_whole(out, build(run, pngs).encode())
    except OSError as error:
        raise RecomposeError(f"cannot write {str(out)!r}: {error.strerror}; give another --out") from error
    click.echo(f"{out}: {run.items.num_rows:,} items, {len(run.decisions)} decisions")
