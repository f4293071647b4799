"""``recompose serve``: the daemon."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import click
import structlog

from compositions.errors import RecomposeError
from service import logs
from service.api import create_app
from service.api.guard import MAX_BODY_BYTES, Access, is_loopback
from service.bodies.spec import RunSpec, TelemetrySpec
from service.cli.check import apps_option
from service.cli.configured import config_option, configured
from service.cli.listener import listen, serve_on
from service.cli.served import discover, host_of, watched
from service.daemon.daemon import Daemon
from service.daemon.storing.database import default_directory
from service.daemon.storing.store import DaemonStore

log = structlog.get_logger()


@click.command()
@config_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Other than loopback needs RECOMPOSE_TOKEN.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True)
@apps_option
@click.option(
    "--compositions",
    "compositions_dirs",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="Folder of compositions files, read again when they change.",
)
@click.option("--state", "state_dir", type=click.Path(file_okay=False, path_type=Path), help="Default: ~/.local/state.")
@click.option("--telemetry/--no-telemetry", default=True, show_default=True, help="Files below the state directory.")
@click.option("--telemetry-days", type=click.FloatRange(0, min_open=True), default=7.0, show_default=True)
@click.option(
    "--telemetry-mb",
    type=click.FloatRange(0, min_open=True),
    default=1000.0,
    show_default=True,
    help="Of an app; the oldest files go when they are older, or all are larger.",
)
@click.option("--ray", "address", help="Address of a running Ray cluster; default: one of its own.")
@click.option("--max-item-bytes", type=click.IntRange(1), default=MAX_BODY_BYTES, show_default=True)
@click.option("--log-level", type=click.Choice(list(logs.LEVELS)), default="info", show_default=True)
@click.option("--pool", type=click.Choice(["ray", "local"]), default="ray", hidden=True)
def serve(
    config: Path | None,
    host: str,
    port: int,
    apps_dirs: tuple[Path, ...],
    compositions_dirs: tuple[Path, ...],
    state_dir: Path | None,
    telemetry: bool,
    telemetry_days: float,
    telemetry_mb: float,
    address: str | None,
    max_item_bytes: int,
    log_level: str,
    pool: str,
) -> None:
    """Runs the service until SIGTERM or Ctrl-C, then delivers what was accepted and ends."""
    access = _access(host, max_item_bytes)
    recent = logs.Recent()
    logs.configure(log_level, recent=recent)
    apps = discover(apps_dirs)
    directory = state_dir or default_directory()
    folder = str((directory / "telemetry").resolve())
    kept = TelemetrySpec(folder=folder, keep_days=telemetry_days, keep_mb=telemetry_mb)
    base = RunSpec(
        app="",
        apps_dirs=tuple(str(each.resolve()) for each in apps_dirs),
        pool=cast(Any, pool),
        telemetry=kept if telemetry else None,
        journals=str((directory / "journals").resolve()),
    )
    with (
        closing(listen(host, port)) as listener,
        closing(DaemonStore(directory)) as store,
        closing(host_of(pool, address)) as runners,
    ):
        daemon = Daemon(apps, runners, store, base)
        with watched(compositions_dirs, daemon), configured(config, daemon):
            serve_on(listener, create_app(daemon, access, recent))


def _access(host: str, max_item_bytes: int) -> Access:
    token = os.environ.pop("RECOMPOSE_TOKEN", None) or None  # apps in this process do not find it, nor what it starts
    if token is None and not is_loopback(host):
        raise RecomposeError(f"host {host!r} can be reached from outside; set RECOMPOSE_TOKEN or bind to 127.0.0.1")
    return Access(token, max_item_bytes=max_item_bytes)
