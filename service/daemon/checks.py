"""Check a start, or a change of a run, before it reaches a runner."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from compositions.errors import Fault, RecomposeError
from compositions.model import Composition, Loads, Stage, held_by
from compositions.resources import need_of
from control.strategies import check_takes
from datapipe.sink_kinds import KINDS, Opening
from datapipe.source_kinds import PathMeans
from profiler.slo import Slo
from runtime.placement.cluster import Cluster
from runtime.placement.place import Shape, lacking_for
from service.runner.validation.durable import durability_fault
from service.runner.validation.resolution import rate_of, settings_for
from service.schemas.refusals import BadValueError, listed
from service.schemas.spec import BatchingSpec, InputSpec, RunSpec, SinkSpec

WORKERS_PER_CORE = 32
"""Of one app. Stages that wait gain from more workers than cores; each is a process of some 64 MB."""


@contextmanager
def _refusing(field: str, what: str = "") -> Iterator[None]:
    """Refuse ``field`` of a request where the body is refused. Raises: BadValueError."""
    try:
        yield
    except RecomposeError as error:
        raise BadValueError(f"{what}{error}", [Fault(field, str(error))]) from error


def _refuse(field: str, message: str) -> NoReturn:
    raise BadValueError(message, [Fault(field, message)])


def check_composition(app: str, name: str | None, choices: Sequence[Composition], cores: float) -> None:
    """Raises: BadValueError when ``name`` is given and not among ``choices``, or ``cores`` cannot bear its workers."""
    if name is None:
        return
    found = next((each for each in choices if each.name == name), None)
    if found is None:
        known = listed([each.name for each in choices])
        _refuse("composition", f"{app} has no composition {name!r}; it has {known}")
    if found.workers > (most := int(cores * WORKERS_PER_CORE)):
        has = f"composition {name!r} has {found.workers:,} workers"
        _refuse("composition", f"{has}; on {cores:g} cores an app may have {most:,}, {WORKERS_PER_CORE} a core")


def check_resources(app: str, stages: Sequence[Stage], crew: Mapping[Loads, int], cluster: Cluster) -> None:
    """Raises: BadValueError when the nodes could never hold so many workers of each class with what the stages need."""
    names = {loads: f"{app} for {', '.join(loads)}" if loads else app for loads in crew}
    shapes = [Shape(names[loads], need_of(held_by(stages, loads)), count) for loads, count in crew.items()]
    if (lacking := lacking_for(cluster, shapes)) is not None:
        _refuse("app", f"{app} cannot start on these nodes: {lacking}")


def check_input(input: InputSpec, apps_dirs: Sequence[str]) -> None:
    """Raises: BadValueError when the rate or pattern is not one; ``apps_dirs`` have the custom ones."""
    with _refusing("input", "input refused: "):
        rate_of(input, apps_dirs)


def check_batching(batching: BatchingSpec) -> None:
    """Raises: BadValueError when items, controller and settings do not go together."""
    with _refusing("batching", "batching refused: "):
        _ = batching.batching


def check_objectives(strategy: str, slo: Slo | None) -> None:
    """Raises: BadValueError when ``strategy`` takes one objective, and there are several, or a budget."""
    with _refusing("objectives"):
        check_takes(strategy, slo)


def check_start(spec: RunSpec) -> None:
    """Check a start apart from its objective and its composition. Raises: BadValueError."""
    _check_source(spec)
    _check_sink(spec.sink)
    if (fault := durability_fault(spec)) is not None:
        _refuse("durability", fault)
    check_input(spec.input, spec.apps_dirs)
    check_batching(spec.batching)
    with _refusing("settings", "settings refused: "):
        settings_for(spec.settings)


def _check_source(spec: RunSpec) -> None:
    """Raises: BadValueError when the source cannot be read from this machine."""
    means, path = spec.source.of.path, spec.source.path
    if spec.source.fault is not None:
        _refuse("source", spec.source.fault)
    if path is None or means is PathMeans.PLACE:
        return
    if means is PathMeans.NOTHING or not _exists(path):
        why = "does not exist on the service's machine" if means is PathMeans.FILES else "goes with kind replay only"
        _refuse("source.path", f"source path {path!r} {why}; give a file or folder, or null for the app's own data set")


def _check_sink(sink: SinkSpec | None) -> None:
    """Raises: BadValueError when it has fields of another kind, or can be none. Whether it answers is not asked."""
    if sink is None:
        return
    if sink.fault is not None:
        _refuse("sink", sink.fault)
    if sink.kind in KINDS:
        with _refusing("sink.path"):
            KINDS[sink.kind].open(Opening(sink.path, "", 0, sink.options)).close()


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (ValueError, OSError):  # NUL bytes, names too long
        return False
