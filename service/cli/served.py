"""What ``recompose serve`` serves: apps, the compositions that may be chosen, and where their runners live."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import structlog

from apps import registry
from apps.contract import App
from compositions.document.directory import CompositionDirectory, Problem
from compositions.errors import RecomposeError
from service.daemon.daemon import Daemon
from service.daemon.keeping.hosts import Host, LocalHost
from service.running.checking.shipped import shipped

log = structlog.get_logger()


def discover(apps_dirs: Sequence[Path]) -> dict[str, type[App]]:
    """Ours, and those of the folders; what is broken is named in the log and left out."""
    found = registry.scan(apps_dirs)
    for fault in found.faults:
        log.warning("app left out", place=fault.path, reason=fault.message)
    return {name: app for name, app in found.apps.items() if _has_sound_compositions(app)}


def _has_sound_compositions(app: type[App]) -> bool:
    """An app beside whose file there is a broken one is left out; the others are served."""
    try:
        shipped(app)
    except (RecomposeError, OSError) as error:
        log.warning("app left out", place=str(registry.compositions_file(app)), reason=str(error))
        return False
    return True


def host_of(pool: str, address: str | None) -> Host:
    """``address`` of a running Ray cluster; None: one of its own."""
    if pool == "local":
        from service.running.runner import Runner  # here, as Ray below: each costs seconds the other saves

        return LocalHost(Runner)
    from service.daemon.keeping.ray_host import RayHost

    return RayHost(address)


@contextmanager
def watched(paths: Sequence[Path], daemon: Daemon) -> Iterator[None]:
    """Loads the compositions directories, and again at every change."""
    if not paths:
        yield
        return
    directory = CompositionDirectory(paths, daemon.compositions.stages)

    def report(problems: list[Problem]) -> None:
        for problem in problems:
            log.warning("compositions refused", file=str(problem.file), faults=[str(each) for each in problem.faults])
        daemon.compositions.load_directory({name: directory.compositions(name) for name in daemon.names()})

    report(directory.refresh())
    stop = threading.Event()
    thread = threading.Thread(target=directory.watch, args=(stop, report), name="compositions", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
