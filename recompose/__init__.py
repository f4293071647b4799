"""The public API: ``from recompose import App, Stage, run``. Each name is loaded when it is first used.

An app needs ``App``, ``Stage``, ``StageKind``, ``Options``, ``Outputs``, and with event time the names of
``apps.event_time``, such as ``Tumbling``; a script or a notebook ``run`` and, where
plain functions are enough, ``pipeline``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from recompose import names

names.answer()

if TYPE_CHECKING:
    from apps.contract import App, Options, Output, Outputs
    from apps.event_time import (
        END,
        Clock,
        KeyedPane,
        KeyedWindows,
        Late,
        Pane,
        Reading,
        Sessions,
        Sliding,
        Slots,
        Timers,
        Tumbling,
        Window,
        Windowing,
        due,
        with_timer,
        without_timer,
    )
    from compositions.errors import RecomposeError
    from compositions.model import Stage, StageKind
    from profiler.slo import Slo
    from recompose.composed import pipeline
    from recompose.live import LiveRun, RunFailed
    from recompose.started import objective, run
    from service.schemas.results import Result, Summary
    from service.schemas.status import Status

__all__ = [
    "END", "App", "Clock", "KeyedPane", "KeyedWindows", "Late", "LiveRun", "Options", "Output", "Outputs", "Pane",
    "Reading", "RecomposeError", "Result", "RunFailed", "Sessions", "Sliding", "Slo", "Slots", "Stage", "StageKind",
    "Status", "Summary", "Timers", "Tumbling", "Window", "Windowing", "due", "objective", "pipeline", "run",
    "with_timer", "without_timer",
]  # fmt: skip

_PLACES = {
    "apps.contract": ("App", "Options", "Output", "Outputs"),
    "compositions.errors": ("RecomposeError",),
    "compositions.model": ("Stage", "StageKind"),
    "profiler.slo": ("Slo",),
    "composed": ("pipeline",),
    "live": ("LiveRun", "RunFailed"),
    "started": ("objective", "run"),
    "service.schemas.results": ("Result", "Summary"),
    "service.schemas.status": ("Status",),
}
"""Below this package; all others are names of event time. A worker needs nothing of what serves and runs an app."""
_PLACE_OF = dict.fromkeys(__all__, "apps.event_time") | {name: at for at, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _PLACE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_PLACE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
