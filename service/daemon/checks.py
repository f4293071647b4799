"""Check a start, or a change of a run, before it reaches a runner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from compositions.errors import Fault, RecomposeError
from compositions.model import Composition
from compositions.settings import overridden
from control.strategies import check_takes
from datapipe.sink_kinds import KINDS, Opening
from datapipe.source_kinds import PathMeans
from profiler.slo import Slo
from service.runner.validation.durable import durability_fault
from service.runner.validation.resolution import for_this_machine, rate_of
from service.schemas.refusals import BadValueError, listed
from service.schemas.spec import BatchingSpec, InputSpec, RunSpec, SinkSpec

WORKERS_PER_CORE = 32
"""Of one app. Stages that wait gain from more workers than cores; each is a process of some 64 MB."""


def check_composition(app: str, name: str | None, choices: Sequence[Composition], cores: int) -> None:
    """Raises: BadValueError when ``name`` is given and not among ``choices``, or ``cores`` cannot bear its workers."""
    if name is None:
        return
    found = next((each for each in choices if each.name == name), None)
    if found is None:
        message = f"{app} has no composition {name!r}; it has {listed([each.name for each in choices])}"
        raise BadValueError(message, [Fault("composition", message)])
    if found.workers > (most := cores * WORKERS_PER_CORE):
        message = (
            f"composition {name!r} has {found.workers:,} workers; on {cores} cores an app may have {most:,}, "
            f"{WORKERS_PER_CORE} a core"
        )
        raise BadValueError(message, [Fault("composition", message)])


def check_input(input: InputSpec, apps_dirs: Sequence[str]) -> None:
    """Raises: BadValueError when the rate or pattern is not one; ``apps_dirs`` have the custom ones."""
    try:
        rate_of(input, apps_dirs)
    except RecomposeError as error:
        raise BadValueError(f"input refused: {error}", [Fault("input", str(error))]) from error


def check_batching(batching: BatchingSpec) -> None:
    """Raises: BadValueError when items, controller and settings do not go together."""
    try:
        _ = batching.batching
    except RecomposeError as error:
        raise BadValueError(f"batching refused: {error}", [Fault("batching", str(error))]) from error


def check_objectives(strategy: str, slo: Slo | None) -> None:
    """Raises: BadValueError when ``strategy`` takes one objective, and there are several, or a budget."""
    try:
        check_takes(strategy, slo)
    except RecomposeError as error:
        raise BadValueError(str(error), [Fault("objectives", str(error))]) from error


def check_settings(spec: RunSpec) -> None:
    """Raises: BadValueError when one is unknown or out of range."""
    try:
        overridden(for_this_machine(), spec.settings)
    except RecomposeError as error:
        raise BadValueError(f"settings refused: {error}", [Fault("settings", str(error))]) from error


def check_sink(sink: SinkSpec | None) -> None:
    """Raises: BadValueError when it has fields of another kind, or can be none. Whether it answers is not asked."""
    if sink is None:
        return
    if sink.fault is not None:
        raise BadValueError(sink.fault, [Fault("sink", sink.fault)])
    if sink.kind in KINDS:
        try:
            KINDS[sink.kind].open(Opening(sink.path, "", 0, sink.options)).close()
        except RecomposeError as error:
            raise BadValueError(str(error), [Fault("sink.path", str(error))]) from error


def check_durability(spec: RunSpec) -> None:
    """Check the durability. Raises: BadValueError if it does not fit the source or the sink."""
    if (fault := durability_fault(spec)) is not None:
        raise BadValueError(fault, [Fault("durability", fault)])


def check_source(spec: RunSpec) -> None:
    """Raises: BadValueError when the source cannot be read from this machine."""
    means, path = spec.source.of.path, spec.source.path
    if spec.source.fault is not None:
        raise BadValueError(spec.source.fault, [Fault("source", spec.source.fault)])
    if path is None or means is PathMeans.PLACE:
        return
    if means is PathMeans.NOTHING or not _exists(path):
        why = "does not exist on the service's machine" if means is PathMeans.FILES else "goes with kind replay only"
        message = f"source path {path!r} {why}; give a file or folder, or null for the app's own data set"
        raise BadValueError(message, [Fault("source.path", message)])


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (ValueError, OSError):  # NUL bytes, names too long
        return False
