"""``recompose backup`` and ``tokens``: copy the state of a service, and manage its named tokens, while it may run."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import click

from compositions.errors import RecomposeError
from service.cli.texts import FOLDER
from service.daemon.store.database import FILE, default_directory
from service.daemon.tokens import AUDIT, TOKENS, Role, Tokens

TELEMETRY = "telemetry"
state_option = click.option("--state", type=FOLDER, help="State directory (default ~/.local/state/recompose).")


@click.command()
@click.argument("target", type=FOLDER)
@state_option
@click.option("--telemetry/--no-telemetry", default=True, help="Copy the telemetry as well.")
def backup(target: Path, state: Path | None, telemetry: bool) -> None:
    """Copy the state of a service into the new folder TARGET. The service may run meanwhile.

    To restore, stop the service and replace its state directory with the copy.
    """
    source = state or default_directory()
    journals = copied(source, target, telemetry=telemetry)
    click.echo(f"{target}: objectives, decisions and started apps, {journals} journals of durable runs")


def copied(source: Path, target: Path, *, telemetry: bool = True) -> int:
    """Copy the state; return the number of journals. The state file comes first, so the journal of each run that it
    names is at least as new. Raises: RecomposeError for no state, an old target, or a file that cannot be copied."""
    if not (source / FILE).is_file():
        raise RecomposeError(f"{source} has no {FILE}; give the state directory of the service with --state")
    if target.exists():
        raise RecomposeError(f"{target} exists; a backup goes into a new folder")
    target.mkdir(mode=0o700, parents=True)
    journals = 0
    try:
        _copy_database(source / FILE, target / FILE)
        for name in (TOKENS, AUDIT):
            _copy_file(source / name, target / name)
        for journal in sorted(source.glob("journals/*/*.journal")):
            journals += _copy_journal(journal, target / journal.relative_to(source))
        if telemetry:
            for file in _finished(source / TELEMETRY):
                _copy_file(file, target / file.relative_to(source))
    except (OSError, sqlite3.Error) as error:
        raise RecomposeError(f"{target} is not a complete backup: {error}") from error
    return journals


def _copy_database(source: Path, target: Path) -> None:
    """Copy a consistent snapshot of a database, even while it is written to. Raises: sqlite3.Error."""
    target.touch(mode=0o600)
    with (
        closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as reading,
        closing(sqlite3.connect(target)) as writing,
    ):
        reading.backup(writing)


def _copy_journal(source: Path, target: Path) -> bool:
    """Copy a journal; return False if it is gone because its run has ended. Raises: sqlite3.Error."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        _copy_database(source, target)
    except sqlite3.OperationalError:
        if source.exists():
            raise
        target.unlink()
        return False
    return True


def _finished(folder: Path) -> Iterator[Path]:
    """List files that are complete, so that nobody writes to them any more: those with a final name."""
    return (file for file in sorted(folder.rglob("*")) if file.is_file() and not file.name.startswith((".", "_")))


def _copy_file(source: Path, target: Path) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileNotFoundError):  # it was too old to keep, so the service has removed it meanwhile
        shutil.copy2(source, target)


@click.group()
@state_option
@click.pass_context
def tokens(context: click.Context, state: Path | None) -> None:
    """Add, list and revoke the named tokens of a service, which may run meanwhile."""
    context.obj = Tokens((state or default_directory()) / TOKENS)


@tokens.command()
@click.argument("name")
@click.option("--role", type=click.Choice(list(Role)), default=Role.VIEWER, help="Role that limits the token's rights.")
@click.pass_obj
def add(found: Tokens, name: str, role: str) -> None:
    """Create the token NAME and print its secret, which cannot be read again later."""
    click.echo(found.add(name, Role(role)))


@tokens.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def list_(found: Tokens, as_json: bool) -> None:
    """Show name, role and time of each token."""
    rows = [{"name": each.name, "role": each.role, "made_at": each.made_at} for each in found.all()]
    click.echo(json.dumps(rows) if as_json else "\n".join("  ".join(row.values()) for row in rows))


@tokens.command()
@click.argument("name")
@click.pass_obj
def revoke(found: Tokens, name: str) -> None:
    """Remove the token NAME; from then on, requests with it are refused."""
    found.revoke(name)
