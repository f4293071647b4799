"""``recompose serve``: find the apps and their host, and run the daemon."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import click
import structlog

from apps import registry
from apps.contract import App
from compositions.document.directory import CompositionDirectory, Problem
from compositions.errors import RecomposeError
from service import logs
from service.api import create_app
from service.api.guard import MAX_BODY_BYTES, Access, is_loopback, own_users
from service.cli.check import apps_option
from service.cli.configured import beside, config_option, configured
from service.cli.listener import listen, serve_on
from service.cli.texts import FOLDER, POSITIVE
from service.daemon.daemon import Daemon
from service.daemon.store.database import default_directory
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.runner_slot import Host, LocalHost
from service.daemon.table_job import TableJob
from service.daemon.tokens import AUDIT, TOKENS, Audit, Tokens
from service.runner.validation.resolution import shipped
from service.schemas.spec import Durable, Ending, RunSpec, TelemetrySpec

log = structlog.get_logger()


@click.command()
@config_option
@click.option("--host", default="127.0.0.1", help="Address to listen on; if not loopback, set RECOMPOSE_TOKEN.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, help="Port to listen on; 0: any free port.")
@apps_option
@click.option(
    "--compositions",
    "compositions_dirs",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="Folder of YAML files with compositions; changed files are read again.",
)
@click.option("--state", "state_dir", type=FOLDER, help="State directory (default ~/.local/state/recompose).")
@click.option("--telemetry/--no-telemetry", default=True, help="Write telemetry files below the state directory.")
@click.option("--telemetry-days", type=POSITIVE, default=7.0, help="Days for which telemetry files are kept.")
@click.option(
    "--telemetry-mb",
    type=POSITIVE,
    default=1000.0,
    help="Maximum size of an app's telemetry, in MB; its oldest files, and those beyond --telemetry-days, are removed.",
)
@click.option(
    "--tables-every",
    type=click.FloatRange(0),
    default=10.0,
    help="Minutes between two runs of the Spark job that updates the tables of telemetry (default 10; 0: never).",
)
@click.option("--ray", "address", help="Address of a running Ray cluster (default: the service starts its own).")
@click.option("--autoscale", is_flag=True, help="Request the nodes that the load needs from the cluster's autoscaler.")
@click.option("--max-item-bytes", type=click.IntRange(1), default=MAX_BODY_BYTES, help="Maximum bytes of a push body.")
@click.option("--log-level", type=click.Choice(list(logs.LEVELS)), default="info", help="Lowest level that is logged.")
@click.option(
    "--log-format",
    type=click.Choice(["json", "text"]),
    help="Format of the log of the service and its runners (default: text on a terminal, else JSON).",
)
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
    tables_every: float,
    address: str | None,
    autoscale: bool,
    max_item_bytes: int,
    log_level: str,
    log_format: str | None,
    pool: str,
) -> None:
    """Run the service until SIGTERM or Ctrl-C; then deliver the accepted items, and end."""
    directory = state_dir or default_directory()
    access = _access(host, max_item_bytes, directory)
    recent = logs.Recent()
    logs.configure(log_level, console=None if log_format is None else log_format == "text", recent=recent)
    apps = discover(apps_dirs)
    folder = str((directory / "telemetry").resolve())
    kept = TelemetrySpec(folder=folder, keep_days=telemetry_days, keep_mb=telemetry_mb)
    base = _base(pool, apps_dirs, directory, kept if telemetry else None)
    with (
        closing(listen(host, port)) as listener,
        closing(DaemonStore(directory)) as store,
        closing(host_of(pool, address)) as runners,
    ):
        daemon = Daemon(apps, runners, store, base)
        daemon.nodes.autoscale = autoscale
        with (
            tables(Path(folder), tables_every if telemetry else 0, daemon),
            watched(compositions_dirs, daemon),
            configured(config, daemon),
        ):
            serve_on(listener, create_app(daemon, access, recent))


def _base(pool: str, apps_dirs: Sequence[Path], directory: Path, telemetry: TelemetrySpec | None) -> RunSpec:
    """Return the part of the spec that all runs share."""
    return RunSpec(
        app="",
        apps_dirs=tuple(str(each.resolve()) for each in apps_dirs),
        pool=cast(Any, pool),
        ending=Ending(telemetry=telemetry),
        durable=Durable(journals=str((directory / "journals").resolve())),
    )


@contextmanager
def tables(folder: Path, every_minutes: float, daemon: Daemon) -> Iterator[None]:
    """Update the tables of telemetry at intervals, if Spark is installed."""
    missing = [name for name in ("pyspark", "deltalake") if find_spec(name) is None]
    if every_minutes and missing:
        log.info("telemetry tables are not built", missing=missing, remedy="pip install 'recompose[spark]'")
    if not every_minutes or missing:
        yield
        return
    command = (sys.executable, "-m", str(__package__), "telemetry")
    with closing(TableJob(command, folder, 60 * every_minutes)) as job:
        daemon.observation.tables = lambda: job.status
        job.start()
        yield


def _access(host: str, max_item_bytes: int, directory: Path) -> Access:
    token = os.environ.pop("RECOMPOSE_TOKEN", None) or None  # hidden from apps in this process and its children
    if token is None and not is_loopback(host):
        raise RecomposeError(f"host {host!r} can be reached from outside; set RECOMPOSE_TOKEN or bind to 127.0.0.1")
    users = None if token else own_users()
    named, audit = Tokens(directory / TOKENS), Audit(directory / AUDIT)
    return Access(token, users, max_item_bytes=max_item_bytes, named=named, audit=audit)


def discover(apps_dirs: Sequence[Path]) -> dict[str, type[App]]:
    """Return the built-in apps and those of the folders; broken apps are logged and left out."""
    found = registry.scan(apps_dirs)
    for fault in found.faults:
        log.warning("app left out", place=fault.path, reason=fault.message)
    return {name: app for name, app in found.apps.items() if _has_sound_compositions(app)}


def _has_sound_compositions(app: type[App]) -> bool:
    """Return whether the compositions file beside an app is sound; if it is not, the app is left out."""
    try:
        shipped(app)
    except (RecomposeError, OSError) as error:
        log.warning("app left out", place=str(registry.compositions_file(app)), reason=str(error))
        return False
    return True


def host_of(pool: str, address: str | None) -> Host:
    """Return the host of the runners. ``address``: of a running Ray cluster; None: start one."""
    if pool == "local":
        from service.runner.runner import Runner  # imported here, like Ray below: it takes seconds

        return LocalHost(Runner)
    from service.daemon.supervision.ray_host import RayHost

    return RayHost(address)


@contextmanager
def watched(paths: Sequence[Path], daemon: Daemon) -> Iterator[None]:
    """Load the compositions directories, and again at every change."""
    if not paths:
        yield
        return
    directory = CompositionDirectory(paths, daemon.compositions.stages)

    def report(problems: list[Problem]) -> None:
        for problem in problems:
            log.warning("compositions refused", file=str(problem.file), faults=[str(each) for each in problem.faults])
        names = daemon.registered()
        resources = {name: directory.resources(name) for name in names}
        daemon.compositions.load_directory({name: directory.compositions(name) for name in names}, resources)

    report(directory.refresh())
    with beside(partial(directory.watch, report=report), "compositions"):
        yield
