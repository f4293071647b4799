"""``recompose tokens``: named tokens, in the state directory. Whoever may write there may make them."""

import json
from pathlib import Path

import click

from service.cli.backup import state_option
from service.daemon.store.database import default_directory
from service.daemon.tokens import TOKENS, Role, Tokens


@click.group()
@state_option
@click.pass_context
def tokens(context: click.Context, state: Path | None) -> None:
    """Add, list and revoke the named tokens of a service, which may run meanwhile."""
    context.obj = Tokens((state or default_directory()) / TOKENS)


@tokens.command()
@click.argument("name")
@click.option("--role", type=click.Choice(list(Role)), default=Role.VIEWER, show_default=True)
@click.pass_obj
def add(found: Tokens, name: str, role: str) -> None:
    """Make the token NAME and print its secret, which is stored nowhere."""
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
    """Remove the token NAME: its next request is refused."""
    found.revoke(name)
