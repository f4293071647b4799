"""Set up the stages of an app that a worker of some class runs, and tear them down at the worker's end."""

import inspect
import sys
import traceback
from collections.abc import Callable
from typing import Any

from apps.contract import App
from compositions.model import Loads, held_by

MakeApp = Callable[[], App]


def set_up(make_app: MakeApp, loads: Loads) -> App:
    """Make the app, and call its ``setup``; if it has a parameter ``stages``, pass the stages that the worker runs."""
    app = make_app()
    _told(app.setup, app, loads)
    return app


def tear_down(app: App, loads: Loads) -> None:
    """Call the app's ``teardown`` at the end of a worker; print an error rather than raise it."""
    try:
        _told(app.teardown, app, loads)
    except Exception:
        print(f"teardown of app {app.name} failed\n{traceback.format_exc()}", file=sys.stderr, flush=True)


def _told(hook: Callable[..., Any], app: App, loads: Loads) -> None:
    if "stages" in inspect.signature(hook).parameters:
        hook(stages=tuple(stage.name for stage in held_by(app.stages, loads)))
    else:
        hook()
