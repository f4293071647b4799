"""``recompose new``: an app to begin with, its compositions, and a test of both that passes."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

import click

from compositions.errors import RecomposeError

TEMPLATE = Path(__file__).parent / "template"
FILES = {"app.py.txt": "{name}.py", "app.yaml.txt": "{name}.yaml", "test_app.py.txt": "tests/test_{name}.py"}
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


@click.command()
@click.argument("name")
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of apps (default: a new one of that name, here).",
)
def new(name: str, into: Path | None) -> None:
    """Create an app NAME from a template: NAME.py, NAME.yaml with its compositions, and tests/test_NAME.py."""
    if not NAME.fullmatch(name):
        raise click.BadParameter(
            f"{name!r} must be lower-case letters, digits and _, the first a letter", param_hint="NAME"
        )
    folder = into or Path(name)
    words = {"name": name, "title": "".join(part.capitalize() for part in name.split("_"))}
    made = {folder / place.format(name=name): (TEMPLATE / file).read_text() for file, place in FILES.items()}
    if there := [str(file) for file in made if file.exists()]:
        raise RecomposeError(f"{there[0]!r} is there already; give another NAME, or --into another folder")
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
