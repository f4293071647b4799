"""Check that a class is an acceptable app, before any worker starts."""

import inspect
import math
import re
from collections.abc import Iterator
from itertools import pairwise

from apps.contract import App, Options
from apps.expectations import adapter
from apps.keys import MOST_PARTITIONS
from compositions.errors import RecomposeError, shown
from compositions.model import Stage, StageKind
from compositions.resources import need_of, resource_faults

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_KINDS = " or ".join(f"StageKind.{kind.name}" for kind in StageKind)
_TAKEN = {*dir(App), *App.__annotations__, "options"}


def faults_of(app: App | type[App]) -> list[str]:
    """Return the faults of an app as sentences, for the class or for an instance that sets its own stages."""
    faults = list(_class_faults(app))
    stages = getattr(app, "stages", ())
    if not stages or not all(isinstance(stage, Stage) for stage in stages):
        return [*faults, f"stages is {stages!r}; must be a tuple of one or more Stage"]
    faults += [*_repeated(stages), *(fault for stage in stages for fault in _stage_faults(app, stage))]
    return faults or list(_shared_faults(app, stages))


def _shared_faults(app: App | type[App], stages: tuple[Stage, ...]) -> Iterator[str]:
    """Yield faults that keep a worker from loading the app's stages."""
    own = [stage.name for stage in stages if stage.setup == "per-group"]
    if own and "stages" not in inspect.signature(app.setup).parameters:
        yield f"stage {own[0]!r} has setup = 'per-group', so setup must take (self, stages) and load only these"
    try:
        need_of(stages)
    except RecomposeError as error:
        yield str(error)


def _class_faults(app: App | type[App]) -> Iterator[str]:
    name = getattr(app, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield f"name is {name!r}; must be 1 to 64 lower-case letters, digits, - or _, and begin with a letter or digit"
    model = app.options_model
    if not (isinstance(model, type) and issubclass(model, Options)):
        yield f"options_model is {model!r}; must be a subclass of apps.contract.Options"
    for expected in ("item_type", "result_type"):
        try:
            adapter(getattr(app, expected))
        except Exception as error:  # pydantic may raise any error
            yield f"{expected} is {getattr(app, expected)!r}; must be a type that pydantic can check ({error!s:.100})"
    if isinstance(app, type) and not (takes_options(app) or _takes(app, (), bound=True)):
        yield "__init__ must take (self) or (self, options); what else it needs may be an option"


def takes_options(app_class: type[App]) -> bool:
    """Return whether the app's ``__init__`` takes the options; otherwise they are set as an attribute before."""
    return _takes(app_class, ("options",), bound=True)


def _repeated(stages: tuple[Stage, ...]) -> Iterator[str]:
    names = [stage.name for stage in stages]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"stage {name!r} is listed {names.count(name)} times; every stage is listed once"


def _stage_faults(app: App | type[App], stage: Stage) -> Iterator[str]:
    method = getattr(app, stage.name, None)
    if stage.name in _TAKEN:
        yield f"stage {stage.name!r} has the name of an attribute of App; choose another name"
    elif not isinstance(stage.kind, StageKind):
        yield f"stage {stage.name!r} has kind = {stage.kind!r}; must be {_KINDS}"
    elif type(stage.batch) is not bool:
        yield f"stage {stage.name!r} has batch = {shown(stage.batch)}; must be True or False"
    elif stage.setup not in ("all", "per-group"):
        yield f"stage {stage.name!r} has setup = {shown(stage.setup)}; must be 'all' or 'per-group'"
    elif not callable(method):
        yield f"stage {stage.name!r} has no method of that name"
    elif not _takes(method, _arguments(stage), bound=_is_bound(app, stage.name)):
        arguments = ", ".join(_arguments(stage))
        kind = f"{stage.kind} batch" if stage.batch else stage.kind
        yield f"the method of {kind} stage {stage.name!r} must take (self, {arguments})"
    else:
        calls = (*_order_faults(stage), *_call_faults(stage, method), *_key_faults(app, stage))
        yield from (f"stage {stage.name!r} {fault}" for fault in (*calls, *resource_faults(stage)))


def _arguments(stage: Stage) -> tuple[str, ...]:
    value = "values" if stage.batch else "value"
    state = "states" if stage.batch and stage.kind is StageKind.PARTITIONED else "state"
    return (value, state) if stage.keeps_state else (value,)


def _order_faults(stage: Stage) -> Iterator[str]:
    """Yield a fault if a stage is unordered, which is not supported."""
    if stage.ordered is True:
        return
    why = "its items are processed in any order anyway, and only results are put in order; leave it out"
    if stage.keeps_state:
        why = "results of a stage with a state depend on the order of its items; leave it out"
        if stage.kind is StageKind.STATEFUL:
            why += ", or give it a state for each key, StageKind.PARTITIONED, which several workers share"
    yield f"is {stage.kind} and has ordered = {stage.ordered!r}; {why}"


def _call_faults(stage: Stage, method: object) -> Iterator[str]:
    """Yield contradictions in the way that a stage is called."""
    stateful, is_async = stage.keeps_state, inspect.iscoroutinefunction(method)
    if inspect.isasyncgenfunction(method):
        yield "is an async generator, which cannot be called; write an async def that returns Outputs([...])"
    if stateful and inspect.isgeneratorfunction(method):
        yield "keeps a state and is a generator; write a def that returns (Outputs([...]), state)"
    if is_async and (stage.batch or stateful):
        other = "a batch stage" if stage.batch else stage.kind
        yield f"is an async def and {other}; only a stateless stage that gets one value at a time may wait"
    if isinstance(stage.price, bool) or not isinstance(stage.price, int | float) or not 0 <= stage.price < math.inf:
        yield f"has price = {stage.price!r}; must be a number from 0 on"
    if not _is_count(stage.concurrency):
        yield f"has concurrency = {stage.concurrency!r}; must be a whole number, 1 or more"
    elif stage.concurrency > 1 and not is_async:
        yield f"has concurrency = {stage.concurrency} and is no async def: only calls that wait may overlap"
    if stage.time_limit_s is not None and not _is_time(stage.time_limit_s):
        yield f"has time_limit_s = {stage.time_limit_s!r}; must be seconds above 0, or None for that of the run"
    yield from _column_faults(stage)


def _is_count(value: object, most: float = math.inf) -> bool:
    return type(value) is int and 1 <= value <= most


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and 0 < value < math.inf


def _key_faults(app: App | type[App], stage: Stage) -> Iterator[str]:
    """Yield the faults of a partitioned stage."""
    if stage.kind is not StageKind.PARTITIONED:
        return
    name = f"{stage.name}_key"
    key_of = getattr(app, name, None)
    if not callable(key_of) or inspect.iscoroutinefunction(key_of):
        yield f"is partitioned and needs a method {name}(self, value) that returns the key of a value"
    elif not _takes(key_of, ("value",), bound=_is_bound(app, name)):
        yield f"is partitioned, and its method {name} must take (self, value)"
    if not _is_count(stage.partitions, MOST_PARTITIONS):
        yield f"has partitions = {stage.partitions!r}; must be a whole number from 1 to {MOST_PARTITIONS}"
    elif stage.bounds and not _are_bounds(stage.bounds, stage.partitions):
        told = f"must be {stage.partitions - 1} keys, ascending: the first of each partition but the first"
        yield f"has bounds = {stage.bounds!r:.80}; {told}"


def _are_bounds(bounds: object, partitions: int) -> bool:
    if not isinstance(bounds, tuple) or len(bounds) != partitions - 1 or len(set(map(type, bounds))) > 1:
        return False
    return all(low < high for low, high in pairwise(bounds))


def _column_faults(stage: Stage) -> Iterator[str]:
    if not stage.columns:
        return
    if not stage.batch:
        yield "has columns, but is not a batch stage; add batch=True"
    import pyarrow as pa  # imported here: few apps need it

    for column in stage.columns:
        try:
            name, kind = column
            pa.field(name, pa.type_for_alias(kind))
        except (TypeError, ValueError) as error:
            yield f"has column {column!r}; must be a name and an Arrow type, as in ('price', 'float64'): {error}"


def _is_bound(app: App | type[App], name: str) -> bool:
    return not isinstance(app, type) or isinstance(inspect.getattr_static(app, name), staticmethod | classmethod)


def _takes(method: object, arguments: tuple[str, ...], *, bound: bool) -> bool:
    assert callable(method)
    try:
        signature = inspect.signature(method)
    except ValueError:  # a C function without a signature
        return True
    try:
        signature.bind(*(arguments if bound else ("self", *arguments)))
    except TypeError:
        return False
    return True
