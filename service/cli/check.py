"""``recompose check``: compositions are validated without a service."""

from __future__ import annotations

from pathlib import Path

import click

from apps import registry
from compositions.document import loader
from compositions.document.safe_yaml import MAX_BYTES
from compositions.errors import CompositionError

apps_option = click.option(
    "--apps",
    "apps_dirs",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with apps of your own; may be given several times.",
)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@apps_option
def check(file: Path, apps_dirs: tuple[Path, ...]) -> None:
    """Validates a compositions FILE, and loads the apps; every fault with its path, exit 1 if there are any."""
    found = registry.scan(apps_dirs)
    for fault in found.faults:
        click.echo(str(fault), err=True)
    apps = {name: app.stages for name, app in found.apps.items()}
    with file.open("rb") as stream:
        text = stream.read(MAX_BYTES + 1)
    try:
        document = loader.load(text, apps)
    except CompositionError as error:
        for fault in error.faults:
            click.echo(f"{file}: {fault}", err=True)
        raise SystemExit(1) from error
    if found.faults:
        raise SystemExit(1)
    click.echo(f"{file}: {len(document.compositions)} compositions of {document.app}, no fault")
