"""What makes a class an acceptable app, checked before any worker starts."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

from apps.contract import App, Options
from compositions.model import Stage, StageKind

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_TAKEN = {*dir(App), *App.__annotations__, "options"}
_ARGUMENTS = {StageKind.STATELESS: ("value",), StageKind.STATEFUL: ("value", "state")}


def faults_of(app: App | type[App]) -> list[str]:
    """What is wrong with an app, a sentence each: with the class, or with an instance that set its own stages."""
    faults = list(_class_faults(app))
    stages = getattr(app, "stages", ())
    if not stages or not all(isinstance(stage, Stage) for stage in stages):
        return [*faults, f"stages is {stages!r}; must be a tuple of one or more Stage"]
    return [*faults, *_repeated(stages), *(fault for stage in stages for fault in _stage_faults(app, stage))]


def _class_faults(app: App | type[App]) -> Iterator[str]:
    name = getattr(app, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield f"name is {name!r}; must be 1 to 64 lower-case letters, digits, - or _, the first no sign"
    model = app.options_model
    if not (isinstance(model, type) and issubclass(model, Options)):
        yield f"options_model is {model!r}; must be a subclass of apps.contract.Options"
    if isinstance(app, type) and not (takes_options(app) or _takes(app, (), bound=True)):
        yield "__init__ must take (self) or (self, options); what else it needs may be an option"


def takes_options(app_class: type[App]) -> bool:
    """Whether its ``__init__`` wants the options; one that takes only ``self`` finds them set."""
    return _takes(app_class, ("options",), bound=True)


def _repeated(stages: tuple[Stage, ...]) -> Iterator[str]:
    names = [stage.name for stage in stages]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"stage {name!r} is listed {names.count(name)} times; every stage is listed once"


def _stage_faults(app: App | type[App], stage: Stage) -> Iterator[str]:
    method = getattr(app, stage.name, None)
    if stage.name in _TAKEN:
        yield f"stage {stage.name!r} has the name of something that App itself has; choose another"
    elif not callable(method):
        yield f"stage {stage.name!r} has no method of that name"
    elif (kind := _unsupported(method)) is not None:
        yield f"stage {stage.name!r} is {kind}, which is not supported yet; write a plain def that returns its result"
    elif not _takes(method, _ARGUMENTS[stage.kind], bound=_is_bound(app, stage.name)):
        arguments = ", ".join(_ARGUMENTS[stage.kind])
        yield f"the method of {stage.kind} stage {stage.name!r} must take (self, {arguments})"


def _unsupported(method: object) -> str | None:
    """A call of these returns at once, with something that is no result and cannot travel."""
    if inspect.iscoroutinefunction(method):
        return "an async def"
    if inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
        return "a generator"
    return None


def _is_bound(app: App | type[App], name: str) -> bool:
    return not isinstance(app, type) or isinstance(inspect.getattr_static(app, name), staticmethod | classmethod)


def _takes(method: object, arguments: tuple[str, ...], *, bound: bool) -> bool:
    assert callable(method)
    try:
        signature = inspect.signature(method)
    except ValueError:  # a function in C that does not tell
        return True
    try:
        signature.bind(*(arguments if bound else ("self", *arguments)))
    except TypeError:
        return False
    return True
