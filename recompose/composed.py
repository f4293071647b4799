"""An app of plain functions, where a class would only hold them together."""

from collections.abc import Callable, Iterator
from typing import Any

from apps.app_check import faults_of
from apps.contract import App
from compositions.errors import RecomposeError
from compositions.model import Stage

Function = Callable[..., Any]
Step = Function | tuple[Stage, Function] | tuple[Stage, Function, Function]


def pipeline(*steps: Step, name: str = "pipeline", description: str = "") -> type[App]:
    """An app whose stages are ``steps``, in their order: functions, each a stateless stage of its name, or pairs of a
    ``Stage`` that says more (``(Stage("count", StageKind.STATEFUL), count)``) and a function. A partitioned stage is
    followed by the function of its key as well: ``(Stage("total", StageKind.PARTITIONED), total, key)``.

    A function takes what the method of an app takes, without ``self``. Raises: RecomposeError for what is no stage.
    """
    pairs = [_pair(step) for step in steps]
    keyed = [step for step in steps if isinstance(step, tuple) and len(step) == 3]
    body = {
        "__module__": pairs[0][1].__module__ if pairs else __name__,
        "__doc__": description,
        "name": name,
        "description": description,
        "stages": tuple(stage for stage, _ in pairs),
        "from_frame": staticmethod(_frame),
        **{stage.name: staticmethod(function) for stage, function in pairs},
        **{f"{stage.name}_key": staticmethod(key) for stage, _, key in keyed},
    }
    app = type("Pipeline", (App,), body)
    if faults := [*_named_twice(pairs), *faults_of(app)]:
        raise RecomposeError(f"pipeline {name!r}: {'; '.join(faults)}")
    return app


def _frame(frame: Any, number: int) -> Any:
    """A frame of source ``video`` is the item."""
    return frame


def _pair(step: Step) -> tuple[Stage, Function]:
    """Raises: RecomposeError."""
    if isinstance(step, tuple):
        if not 2 <= len(step) <= 3 or not isinstance(step[0], Stage) or not all(map(callable, step[1:])):
            raise RecomposeError(f"{step!r} is no stage; give (Stage(…), function), or (Stage(…), function, key)")
        return step[0], step[1]
    name = getattr(step, "__name__", None)
    if not callable(step) or not isinstance(name, str) or not name.isidentifier():
        raise RecomposeError(f'{step!r} has no name for its stage; give (Stage("its_name"), it)')
    return Stage(name), step


def _named_twice(pairs: list[tuple[Stage, Function]]) -> Iterator[str]:
    """One function would hide the other."""
    names = [stage.name for stage, _ in pairs]
    return (f"{names.count(each)} stages are named {each!r}" for each in sorted(set(names)) if names.count(each) > 1)
