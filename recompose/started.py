"""``run``: an app on a source, in this program, kept at what is wanted of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Unpack

from apps.app_check import faults_of
from apps.contract import App
from compositions.errors import RecomposeError
from profiler.slo import Slo
from recompose.asked import Items, Settings, Sink, own_items, spec_of, wanted
from recompose.live import LiveRun
from recompose.unread import Unread
from service import logs
from service.printed import Printed
from service.running.checking.given import Given
from service.running.runner import Runner


def run(
    app: type[App] | str,
    *,
    source: Items | None = None,
    slo: str | Sequence[str] | Slo | None = None,
    sink: Sink | None = None,
    **settings: Unpack[Settings],
) -> LiveRun:
    """Starts ``app``, a class or the name of a known one, and returns the run, which goes on beside the program.

    ``source``: anything to iterate over, a path, ``KIND:PATH`` as on the command line, ``"push"``; None: the app's own
    data. ``slo``: ``"p95<=400ms"``, ``"throughput>=10/s"``, ``"throughput=input_rate"``, or several that are to hold
    together. ``sink``: a file for JSON lines, a function that gets each result, ``"parquet:FOLDER"`` or another as
    on the command line; None: who iterates over the run.

    Raises: RecomposeError with a sentence for whatever cannot run, before anything starts.
    """
    logs.quiet()
    spec = spec_of(_name(app), source, wanted(slo), sink, settings)
    unread = Unread() if spec.out_path is None and spec.sink is None else None
    given = Given(None if isinstance(app, str) else app, own_items(source), unread)
    _join_ray(spec.pool)
    live = LiveRun(Runner(spec, given), unread, show=settings.get("progress", True))
    if callable(sink):
        live.feed(sink)
    return live


def _name(app: type[App] | str) -> str:
    """Raises: RecomposeError for what is no app."""
    if isinstance(app, str):
        return app
    if not (isinstance(app, type) and issubclass(app, App)):
        raise RecomposeError(f"{app!r} is no app; give a subclass of App, pipeline(...), or the name of one")
    if faults := faults_of(app):
        raise RecomposeError(f"app {app.__name__}: {'; '.join(faults)}")
    return app.name


def _join_ray(pool: str) -> None:
    """What apps print comes out on stderr."""
    if pool == "ray":
        from runtime.pools import ray_cluster  # here: a run in threads needs no Ray, which takes seconds

        ray_cluster.connect(hear=Printed(lambda who, line: print(f"({who}) {line}", file=sys.stderr)).line)
