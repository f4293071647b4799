"""What an app prints while ``recompose run`` runs it: on stderr, for stdout belongs to results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

import click

from service.printed import Printed, PrintedHere


@contextmanager
def prints_on_stderr(pool: str) -> Iterator[None]:
    """Of this process and, with pool ``ray``, of the Ray that is joined for it."""
    printed = Printed(lambda who, line: click.echo(f"({who}) {line}", err=True))
    try:
        with redirect_stdout(PrintedHere(printed)):
            if pool == "ray":
                from runtime.pools import ray_cluster  # imported here: it takes seconds a usage error need not cost

                ray_cluster.connect(hear=printed.line)
            yield
            if pool == "ray":
                ray_cluster.hear_out()
    finally:
        printed.close()
