"""``run``: start an app on a source, in this program, and keep it at its objective."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from pydantic import ValidationError

from apps.app_check import faults_of
from apps.contract import App
from compositions.errors import RecomposeError
from compositions.extras import extras_named
from compositions.logger import quiet
from compositions.wording import did_you_mean
from datapipe.source_kinds import KINDS
from profiler.slo import Slo, parse_slo, together
from recompose.live import LiveRun, Unread
from service.cli.texts import SOURCE_OF, parse_sink, parse_source
from service.runner.runner import Runner
from service.runner.validation.resolution import Overrides, follows_itself
from service.schemas.refusals import refusal
from service.schemas.results import Result
from service.schemas.spec import RunSpec, SourceSpec


def run(
    app: type[App] | str,
    *,
    source: Items | None = None,
    slo: str | Sequence[str] | Slo | None = None,
    sink: Sink | None = None,
    **settings: Unpack[Settings],
) -> LiveRun:
    """Start ``app``, a class or the name of a registered app, and return the run, which continues beside the program.

    ``source``: an iterable, a path, ``KIND:PATH`` as on the command line, or ``"push"``; None: the app's own data.
    ``slo``: ``"p95=400ms"``, ``"throughput=10/s"``, ``"throughput=input_rate"``, or several objectives that must hold
    together. ``sink``: a file for JSON lines, a function called with each result, ``"parquet:FOLDER"`` or another sink
    as on the command line; None: results are read by iterating over the run.

    Raises: RecomposeError with a sentence for anything that cannot run, before anything starts.
    """
    quiet()
    spec = spec_of(_name(app), source, wanted(slo), sink, settings)
    unread = Unread() if spec.ending.out_path is None and spec.sink is None else None
    given = Overrides(None if isinstance(app, str) else app, own_items(source), unread)
    with extras_named():
        shown = settings.get("progress", True)
        _join_ray(spec.pool, quiet=not shown)
        live = LiveRun(Runner(spec, given), unread, show=shown)
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


def _join_ray(pool: str, *, quiet: bool) -> None:
    """What apps print comes out on stderr."""
    if pool != "ray":
        return
    from service.cli import render  # here: a run in threads needs neither it nor Ray, which takes seconds

    with render.doing("starting Ray on this machine", quiet=quiet):
        from runtime.pools.ray import cluster
        from service.logs import Printed

        cluster.connect(hear=Printed(lambda who, line: print(f"({who}) {line}", file=sys.stderr)).line)


SOURCES = ("replay", "video", "push", "spark")
PLACES = (KINDS.keys() | SOURCE_OF.keys()) - set(SOURCES)
"""With a colon behind; else it is a path."""
Items = str | Path | Iterable[Any]
Sink = str | Path | Callable[[Result], object]


class Settings(TypedDict, total=False):
    """The further settings of a run; each works as the option of ``recompose run``."""

    rate: float
    """Input rate in items/s; without it as fast as the app accepts items."""
    items: int
    """Number of items after which the run ends."""
    duration_s: float
    """Time after which the run ends, in seconds."""
    options: Mapping[str, Any]
    """Options of the app."""
    composition: str
    """The first one; without an SLO the only one."""
    strategy: str
    batch: int | Literal["auto"]
    """Bundle size in items."""
    pool: Literal["ray", "local"]
    """Where stages run: worker processes, or threads of this one (light to start, one core's worth of Python)."""
    progress: bool
    """A bar on a terminal while the run is waited for; true unless told otherwise."""


def objective(*texts: str, threshold: float = 0.2) -> Slo:
    """Return the objective of texts as on the command line; several must hold together. ``threshold``: ratio beyond the
    target at which a violation begins. Raises: RecomposeError."""
    return together([parse_slo(text, threshold=threshold) for text in texts])


def wanted(slo: str | Sequence[str] | Slo | None) -> Slo | None:
    """Raises: RecomposeError."""
    if slo is None or isinstance(slo, Slo):
        return slo
    return objective(slo) if isinstance(slo, str) else objective(*slo)


def spec_of(app: str, source: Items | None, slo: Slo | None, sink: Sink | None, settings: Settings) -> RunSpec:
    """Raises: RecomposeError for the first value that is not accepted."""
    taken = ("source", "slo", "sink", *Settings.__annotations__)
    if unknown := sorted(settings.keys() - set(taken)):
        known = did_you_mean(unknown[0], taken) or f"; accepted are {', '.join(taken)}"
        raise RecomposeError(f"run has no argument {unknown[0]!r}{known}")
    if source is not None and not isinstance(source, str | Path | Iterable):
        raise RecomposeError(f"source = {source!r}: must be text such as replay:FILE, a path, or an iterable")
    try:
        spec = _checked(app, source, slo, sink, settings)
    except ValidationError as error:
        raise RecomposeError(_as_given(refusal(error))) from None
    except ValueError as error:
        raise RecomposeError(str(error)) from None

    if idle := follows_itself(spec):
        raise RecomposeError(f"slo: {idle}")
    return spec


def _as_given(sentence: str) -> str:
    """Name an argument as in the script, not as in the start body."""
    for field, argument in (("input.rate_per_s", "rate"), ("batching.items", "batch")):
        sentence = sentence.replace(f"{field} = ", f"{argument} = ")
    return sentence


def _checked(app: str, source: Items | None, slo: Slo | None, sink: Sink | None, settings: Settings) -> RunSpec:
    ends = {key: value for key, value in settings.items() if key in ("items", "duration_s")}
    others = {key: value for key, value in settings.items() if key in ("options", "composition", "strategy", "pool")}
    rate = {"rate_per_s": settings["rate"]} if "rate" in settings else {}
    return RunSpec.model_validate(
        {
            "app": app,
            "source": _source(source).looping(bool(ends)),
            "slo": slo,
            "input": rate,
            "batching": {"items": settings.get("batch", "auto")},
            "mode": "pinned" if "composition" in settings and slo is None else "auto",
            **_sink(sink),
            **ends,
            **others,
        }
    )


def _source(source: Items | None) -> SourceSpec:
    if isinstance(source, str):
        kind, colon, _ = source.partition(":")
        if kind in SOURCES or (colon and kind in PLACES):
            return parse_source(source)
    return SourceSpec(path=str(source)) if isinstance(source, str | Path) else SourceSpec()


def own_items(source: Items | None) -> Iterable[Any] | None:
    return None if source is None or isinstance(source, str | Path) else source


def _sink(sink: Sink | None) -> dict[str, Any]:
    if isinstance(sink, str) and ":" in sink:
        return {"sink": parse_sink(sink)}
    return {"out_path": str(sink)} if isinstance(sink, str | Path) else {}
