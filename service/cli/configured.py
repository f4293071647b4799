"""Read the configuration file and apply it: start, change and stop apps, at the start and whenever it changes."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import click
import structlog
from pydantic import Field, ValidationError
from watchfiles import watch

from compositions.document.safe_yaml import read_yaml
from compositions.errors import CompositionError, Fault, RecomposeError
from profiler.slo import Slo
from service.cli.texts import FILE
from service.daemon.daemon import Daemon
from service.daemon.tokens import HIDDEN
from service.runner.rpc.requests import SetBatching, SetInput
from service.schemas.refusals import message, no_app
from service.schemas.requests import RUN_FIELDS, StartRequest
from service.schemas.slo import AlertsRequest, MachineBudgetRequest
from service.schemas.spec import WHOLE, Frozen, Number, RunSpec


class ServeConfig(Frozen):
    """Options of ``recompose serve``; the command line overrides them. Paths are relative to the file."""

    host: str | None = None
    port: Annotated[int, Field(strict=True, ge=0, le=65535), WHOLE] | None = None
    apps: list[str] = []
    compositions: list[str] = []
    state: str | None = None
    telemetry: bool | None = None
    telemetry_days: Annotated[Number, Field(gt=0)] | None = None
    telemetry_mb: Annotated[Number, Field(gt=0)] | None = None
    tables_every: Annotated[Number, Field(ge=0)] | None = None
    ray: str | None = None
    autoscale: Annotated[bool, Field(strict=True)] | None = None
    max_item_bytes: Annotated[int, Field(strict=True, ge=1), WHOLE] | None = None
    log_level: Literal["debug", "info", "warning", "error"] | None = None
    log_format: Literal["json", "text"] | None = None


class ServiceConfig(Frozen):
    service: ServeConfig = ServeConfig()
    alerts: AlertsRequest | None = None
    """Alert rules; null: keep the present ones."""
    budget: MachineBudgetRequest | None = None
    """Budget for all apps together; null: keep the present one."""
    apps: dict[str, StartRequest] = {}
    """Apps to start, by name, each with its start body."""


OPTIONS = {"apps": "apps_dirs", "compositions": "compositions_dirs", "state": "state_dir", "ray": "address"}
"""Names of the command's parameters, if they differ from the file's."""
PATHS = ("apps", "compositions", "state")


class ConfigRefused(RecomposeError):  # noqa: N818 - says what happened
    """A configuration file was refused; the error carries every fault."""

    def __init__(self, file: Path, faults: list[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(f"{file}: {fault}" for fault in faults))


def read_config(file: Path) -> ServiceConfig:
    """Read the file. Raises: ConfigRefused with every fault and its path."""
    try:
        document = read_yaml(file.read_bytes())
        config = ServiceConfig.model_validate({} if document is None else document)
    except OSError as error:
        raise ConfigRefused(file, [Fault("", f"cannot be read: {error.strerror}")]) from error
    except CompositionError as error:
        raise ConfigRefused(file, list(error.faults)) from error
    except ValidationError as error:
        raise ConfigRefused(file, [_fault(detail) for detail in error.errors()]) from error
    faults = [fault for name, app in config.apps.items() for fault in _of_app(name, app)]
    if faults:
        raise ConfigRefused(file, faults)
    return config


def _fault(detail: Any) -> Fault:
    path = ".".join(map(str, detail["loc"]))
    if detail["type"] == "extra_forbidden":
        return Fault(path, "is not a known field")
    said = message(detail)
    may_hold_secrets = HIDDEN.intersection(detail["loc"]) or isinstance(detail["input"], Mapping | list)
    given = "" if may_hold_secrets else f"{detail['input']!r} "
    return Fault(path, f"{given}is not accepted: {said[:1].lower()}{said[1:]}"[:500])


def _of_app(name: str, app: Any) -> list[Fault]:
    """Return the faults that concern several fields of an app."""
    faults = [] if app.source.fault is None else [Fault(f"apps.{name}.source", app.source.fault)]
    try:
        _ = app.batching.batching
    except RecomposeError as error:
        faults.append(Fault(f"apps.{name}", str(error)))
    return faults


def options_of(service: ServeConfig, folder: Path) -> Mapping[str, Any]:
    """Return the file's options by the names of the command's parameters; paths are relative to ``folder``."""
    said = {name: value for name, value in service.model_dump().items() if value not in (None, [])}
    for name in PATHS:
        if name in said:
            paths = said[name]
            said[name] = str(folder / paths) if isinstance(paths, str) else [str(folder / each) for each in paths]
    return {OPTIONS.get(name, name): value for name, value in said.items()}


def _as_defaults(ctx: click.Context, param: click.Parameter, file: Path | None) -> Path | None:
    """Use the file's part ``service`` as defaults of the command's options."""
    if file is not None:
        ctx.default_map = {**(ctx.default_map or {}), **options_of(read_config(file).service, file.resolve().parent)}
    return file


config_option = click.option(
    "--config",
    type=FILE,
    is_eager=True,
    callback=_as_defaults,
    help="YAML file with these options, apps to run and their objectives; changes to apps apply at once.",
)
log = structlog.get_logger()
LIVE = frozenset({"input", "batching"})
"""Fields that can change in a running app; other changes restart it."""
LOOK_S = 0.1
EVERY_MS = 2000
"""Interval of checks on file systems that do not report changes, in milliseconds."""


class Configured:
    """Apply a configuration file to one daemon. Apps that the file never named remain unchanged."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._done: dict[str, StartRequest] = {}
        """Entries that were applied, by app; an unchanged entry is not applied again."""
        self._alerts: AlertsRequest | None = None
        self._budget: MachineBudgetRequest | None = None

    def bring_about(self, config: ServiceConfig) -> None:
        """Apply as much as possible: a refused part is logged with its reason, the others are applied."""
        alerts, budget = config.alerts, config.budget
        if alerts not in (None, self._alerts) and self._try("alerts", partial(self._daemon.alerts.set, alerts)):
            self._alerts = alerts
        if budget not in (None, self._budget) and self._try("budget", partial(self._daemon.machine.set, budget)):
            self._budget = budget
        for name in self._done.keys() - config.apps.keys():
            if self._try(name, partial(self._stop, name)):
                del self._done[name]
        for name, app in config.apps.items():
            if self._done.get(name) != app and self._try(name, partial(self._set, name, app)):
                self._done[name] = app

    def _try(self, name: str, change: Callable[[], object]) -> bool:
        try:
            change()
        except (RecomposeError, ConnectionError, TimeoutError) as error:
            log.warning("configuration not applied", app=name, reason=str(error))
            return False
        return True

    def _stop(self, name: str) -> None:
        if self._daemon.apps.running_spec(name) is not None:
            self._daemon.apps.stop(name)
            log.info("app stopped: removed from the configuration", app=name)

    def _set(self, name: str, app: StartRequest) -> None:
        """Apply an app's entry: first the objective, so that a start finds it."""
        self._want(name, app.objective)
        apps, spec = self._daemon.apps, app.spec(name)
        running = apps.running_spec(name)
        changed = set() if running is None else differing(running, spec)
        if running is not None and changed - LIVE:
            apps.stop(name)
        if running is None or changed - LIVE:
            apps.start(spec)
            log.info("app started as configured", app=name)
            return
        if "input" in changed:
            apps.set(name, SetInput(spec.input))
        if "batching" in changed:
            apps.set(name, SetBatching(spec.batching))

    def _want(self, name: str, slo: Slo | None) -> None:
        objectives = self._daemon.objectives
        if slo is not None:
            objectives.set(name, slo)
        elif name in {each.app for each in objectives.all()}:
            objectives.remove(name)


def differing(running: RunSpec, wanted: RunSpec) -> set[str]:
    """Return the fields in which two start bodies differ; a composition counts only if the new body names one."""
    named = RUN_FIELDS - ({"composition"} if wanted.composition is None else set())
    has, wants = running.model_dump(), wanted.model_dump()
    return {field for field in named if has[field] != wants[field]}


@contextmanager
def beside(work: Callable[[threading.Event], None], name: str) -> Iterator[None]:
    """Run ``work`` in a thread of this name until the block ends, which sets the event."""
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def configured(file: Path | None, daemon: Daemon) -> Iterator[None]:
    """Apply ``file`` and its changes while the daemon serves; None: no file. Raises: ConfigRefused."""
    if file is None:
        yield
        return
    unknown = sorted(read_config(file).apps.keys() - set(daemon.registered()))
    if unknown:
        raise ConfigRefused(file, [Fault(f"apps.{name}", no_app(name, daemon.registered())) for name in unknown])
    with beside(partial(_hold, file, daemon), "configuration"):
        yield


def _hold(file: Path, daemon: Daemon, stop: threading.Event) -> None:
    while not daemon.restored:  # the apps of the previous service are restored first
        if stop.wait(LOOK_S):
            return
    state, seen = Configured(daemon), _stamp(file)
    _read(file, state)
    folder = file.resolve().parent
    for _ in watch(folder, stop_event=stop, yield_on_timeout=True, recursive=False, rust_timeout=EVERY_MS):
        if (now := _stamp(file)) != seen:
            seen = now
            _read(file, state)


def _stamp(file: Path) -> tuple[int, int] | None:
    """Return the time of change and the size of the file, or None if it does not exist."""
    with suppress(OSError):
        status = file.stat()
        return status.st_mtime_ns, status.st_size
    return None


def _read(file: Path, state: Configured) -> None:
    """Read and apply the file; a refused file changes nothing."""
    try:
        config = read_config(file)
    except ConfigRefused as error:
        log.warning("configuration refused", file=str(file), faults=[str(fault) for fault in error.faults])
        return
    state.bring_about(config)
