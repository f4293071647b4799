"""Set up the stages of an app that a worker of some class runs, and let them go at its end."""

import inspect
import sys
import traceback
from collections.abc import Callable
from typing import Any

from apps.contract import App
from compositions.model import Loads, held_by

MakeApp = Callable[[], App]


def set_up(make_app: MakeApp, loads: Loads) -> App:
    """Make the app and call its ``setup``, with the names of the stages that the worker runs, if it takes them."""
    app = make_app()
    _told(app.setup, app, loads)
    return app


def tear_down(app: App, loads: Loads) -> None:
    """Call the app's ``teardown`` at the end of a worker; what it raises is printed, as nobody waits for it."""
    try:
        _told(app.teardown, app, loads)
    except Exception:
        print(f"teardown of app {app.name} failed\n{traceback.format_exc()}", file=sys.stderr, flush=True)


def _told(hook: Callable[..., Any], app: App, loads: Loads) -> None:
    if "stages" in inspect.signature(hook).parameters:
        hook(stages=tuple(stage.name for stage in held_by(app.stages, loads)))
    else:
        hook()
