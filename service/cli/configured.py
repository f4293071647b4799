"""Brings about what a file says: apps are started, changed and stopped, at the start and whenever the file changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import structlog
from watchfiles import watch

from compositions.errors import Fault, RecomposeError
from profiler.slo import Slo
from service.bodies.alerts import AlertsRequest
from service.bodies.config import AppConfig, ServiceConfig
from service.bodies.machine import MachineBudgetRequest
from service.bodies.requests import StartRequest
from service.bodies.spec import RunSpec
from service.cli.config_file import ConfigRefused, config_option, read_config
from service.daemon.daemon import Daemon

__all__ = ["Configured", "config_option", "configured"]

log = structlog.get_logger()
LIVE = frozenset({"input", "batching"})
"""What a running app can be told; for the rest it is started anew."""
LOOK_S = 0.1
EVERY_MS = 2000
"""It also looks so often without a notice, for file systems that send none."""


class Configured:
    """Of one daemon. What a file never named is nobody's business here."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._done: dict[str, AppConfig] = {}
        """What was brought about as the file had it; an entry that has not changed since is left alone."""
        self._alerts: AlertsRequest | None = None
        self._budget: MachineBudgetRequest | None = None

    def bring_about(self, config: ServiceConfig) -> None:
        """As far as it goes: what is refused is logged with its reason, and the rest goes on."""
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
            log.warning("not as the configuration says", app=name, reason=str(error))
            return False
        return True

    def _stop(self, name: str) -> None:
        if self._daemon.apps.running_spec(name) is not None:
            self._daemon.apps.stop(name)
            log.info("stopped, as the configuration says", app=name)

    def _set(self, name: str, app: AppConfig) -> None:
        """The objective first, so that a start has it."""
        self._want(name, app.wanted)
        apps, spec = self._daemon.apps, app.spec(name)
        running = apps.running_spec(name)
        changed = set() if running is None else differing(running, spec)
        if running is not None and changed - LIVE:
            apps.stop(name)
        if running is None or changed - LIVE:
            apps.start(spec)
            log.info("started, as the configuration says", app=name)
            return
        if "input" in changed:
            apps.set_input(name, spec.input)
        if "batching" in changed:
            apps.set_batching(name, spec.batching)

    def _want(self, name: str, slo: Slo | None) -> None:
        objectives = self._daemon.objectives
        if slo is not None:
            objectives.set(name, slo)
        elif name in {each.app for each in objectives.all()}:
            objectives.remove(name)


def differing(running: RunSpec, wanted: RunSpec) -> set[str]:
    """The fields of a start body in which they do. Where no composition is named, any may be the first one."""
    named = StartRequest.model_fields.keys() - ({"composition"} if wanted.composition is None else set())
    return {field for field in named if getattr(running, field) != getattr(wanted, field)}


@contextmanager
def configured(file: Path | None, daemon: Daemon) -> Iterator[None]:
    """Holds what ``file`` says while the daemon serves; None: there is no file. Raises: ConfigRefused."""
    if file is None:
        yield
        return
    _check_names(file, daemon)
    stop = threading.Event()
    thread = threading.Thread(target=_hold, args=(file, daemon, stop), name="configuration", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _check_names(file: Path, daemon: Daemon) -> None:
    known = ", ".join(sorted(daemon.names()))
    unknown = read_config(file).apps.keys() - set(daemon.names())
    if unknown:
        said = f"there is no such app; registered are {known}"
        raise ConfigRefused(file, [Fault(f"apps.{name}", said) for name in sorted(unknown)])


def _hold(file: Path, daemon: Daemon, stop: threading.Event) -> None:
    while daemon.readiness() is not None:  # apps of the last service are brought back first
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
    """Of what the file holds; None while there is none."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _read(file: Path, state: Configured) -> None:
    """A file that is refused changes nothing."""
    try:
        config = read_config(file)
    except ConfigRefused as error:
        log.warning("configuration refused", file=str(file), faults=[str(fault) for fault in error.faults])
        return
    state.bring_about(config)
