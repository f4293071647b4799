"""``recompose check``: validate apps and compositions without a service."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from apps import registry
from compositions.document import loader
from compositions.document.safe_yaml import MAX_BYTES
from compositions.errors import CompositionError, RecomposeError
from service.runner.validation.resolution import shipped

apps_option = click.option(
    "--apps",
    "apps_dirs",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with your own apps; may be given several times.",
)


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@apps_option
def check(file: Path | None, apps_dirs: tuple[Path, ...]) -> None:
    """Check a FILE without a service: compositions in YAML, or an app in Python; without FILE the apps of --apps.

    Every fault is named with its place; exit 1 if there are any.
    """
    if file is None and not apps_dirs:
        raise click.UsageError("give a FILE (compositions in YAML, or an app in Python), or --apps FOLDER")
    if file is not None and file.suffix != ".py":
        _check_document(file, apps_dirs)
    else:
        _check_apps(apps_dirs if file is None else (file,))


def _check_document(file: Path, apps_dirs: Sequence[Path]) -> None:
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


def _check_apps(places: Sequence[Path]) -> None:
    found = registry.scan_own(places)
    faults = [str(fault) for fault in found.faults]
    for name, app in found.apps.items():
        try:
            listed = len(shipped(app))
        except (RecomposeError, OSError) as error:
            faults += str(error).splitlines()
            continue
        stages = ", ".join(stage.name for stage in app.stages)
        click.echo(f"{name}: stages {stages}; {f'{listed} compositions' if listed else 'no list of compositions'}")
    if not found.apps and not faults:
        faults = [f"{', '.join(map(str, places))}: there is no app; a subclass of App with a name and stages is one"]
    for fault in faults:
        click.echo(fault, err=True)
    if faults:
        raise SystemExit(1)
