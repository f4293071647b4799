"""``recompose completion``: what a shell needs to complete commands, options and names of apps."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Prints the completion script of SHELL: eval "$(recompose completion bash)", or keep it in a file."""
    made = get_completion_class(shell)
    assert made is not None, "click knows these"
    command = ctx.find_root().command
    click.echo(made(command, {}, "recompose", "_RECOMPOSE_COMPLETE").source())
