"""``recompose check`` and ``new``: validate apps and compositions without a service, and create an app."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from string import Template

import click

from apps import registry
from compositions.document import loader
from compositions.document.safe_yaml import MAX_BYTES
from compositions.errors import CompositionError, RecomposeError
from service.cli.texts import FILE, FOLDER
from service.runner.validation.resolution import shipped

apps_option = click.option(
    "--apps",
    "apps_dirs",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with your own apps; may be given several times.",
)


@click.command()
@click.argument("file", required=False, type=FILE)
@apps_option
def check(file: Path | None, apps_dirs: tuple[Path, ...]) -> None:
    """Check a FILE without a service: compositions in YAML, or an app in Python. Without FILE, check all in --apps.

    Each fault is printed with its place; if there are any, the exit code is 1.
    """
    if file is None and not apps_dirs:
        raise click.UsageError("give a FILE (compositions in YAML, or an app in Python), or --apps FOLDER")
    if file is not None and file.suffix != ".py":
        _check_document(file, apps_dirs)
    else:
        _check_apps(apps_dirs if file is None else (file,))


def _check_document(file: Path, apps_dirs: Sequence[Path]) -> None:
    found = registry.scan(apps_dirs)
    _tell(found.faults)
    apps = {name: app.stages for name, app in found.apps.items()}
    with file.open("rb") as stream:
        text = stream.read(MAX_BYTES + 1)
    try:
        document = loader.load(text, apps)
    except CompositionError as error:
        _tell(f"{file}: {fault}" for fault in error.faults)
        raise SystemExit(1) from error
    if found.faults:
        raise SystemExit(1)
    click.echo(f"{file}: {len(document.compositions)} compositions of {document.app}, no fault")


def _check_apps(places: Sequence[Path]) -> None:
    found = registry.scan_own(places)
    faults = [str(fault) for fault in found.faults]
    for name, app in found.apps.items():
        try:
            listed = len(shipped(app).compositions)
        except (RecomposeError, OSError) as error:
            faults += str(error).splitlines()
            continue
        stages = ", ".join(stage.name for stage in app.stages)
        click.echo(f"{name}: stages {stages}; {f'{listed} compositions' if listed else 'no list of compositions'}")
    if not found.apps and not faults:
        faults = [f"{', '.join(map(str, places))}: no app found; an app is a subclass of App with a name and stages"]
    _tell(faults)
    if faults:
        raise SystemExit(1)


def _tell(faults: Iterable[object]) -> None:
    for fault in faults:
        click.echo(str(fault), err=True)


TEMPLATE = Path(__file__).parent / "template"
FILES = {"app.py.txt": "{name}.py", "app.yaml.txt": "{name}.yaml", "test_app.py.txt": "tests/test_{name}.py"}
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


@click.command()
@click.argument("name")
@click.option("--into", type=FOLDER, help="Folder of apps (default: a new folder NAME in the current one).")
def new(name: str, into: Path | None) -> None:
    """Create an app NAME from a template: NAME.py, NAME.yaml with its compositions, and tests/test_NAME.py."""
    if not NAME.fullmatch(name):
        what = f"{name!r} must be lower-case letters, digits and _, the first a letter"
        raise click.BadParameter(what, param_hint="NAME")
    folder = into or Path(name)
    words = {"name": name, "title": "".join(part.capitalize() for part in name.split("_"))}
    made = {folder / place.format(name=name): (TEMPLATE / file).read_text() for file, place in FILES.items()}
    if there := [str(file) for file in made if file.exists()]:
        raise RecomposeError(f"{there[0]!r} already exists; give another NAME, or --into another folder")
    for file, text in made.items():
        _write(file, Template(text).substitute(words))
    click.echo("\n".join([*map(str, made), "", *_next(name, folder)]))


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RecomposeError(f"cannot write {str(file)!r}: {error.strerror}") from error


def _next(name: str, folder: Path) -> list[str]:
    return [
        f"recompose check {folder}/{name}.yaml --apps {folder}",
        f"recompose run {name} --apps {folder} --slo p95=400ms --rate 50 --items 500",
        f"python -m pytest {folder}/tests",
    ]
