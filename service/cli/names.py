"""The argument that names an app, and what a shell completes it to."""

from __future__ import annotations

from importlib.metadata import entry_points

import click

from apps.registry import ENTRY_POINT_GROUP


def known_apps(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Those that are installed; no app is loaded and no service asked while somebody types."""
    return sorted(name for name in entry_points(group=ENTRY_POINT_GROUP).names if name.startswith(incomplete))


app_argument = click.argument("app", shell_complete=known_apps)
