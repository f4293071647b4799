"""What ``run`` is asked for, as the spec of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from pydantic import ValidationError

from apps.input.kinds import KINDS
from compositions.errors import RecomposeError
from profiler.slo import Slo, parse_slo, together
from service.bodies.results import Result
from service.bodies.spec import RunSpec, SourceSpec
from service.cli.texts import SOURCE_OF, parse_sink, parse_source

SOURCES = ("replay", "video", "push", "spark")
PLACES = (KINDS.keys() | SOURCE_OF.keys()) - set(SOURCES)
"""With a colon behind; else it is a path."""
Items = str | Path | Iterable[Any]
Sink = str | Path | Callable[[Result], object]


class Settings(TypedDict, total=False):
    """What else can be said of a run; each as ``recompose run`` has it."""

    rate: float
    """Items a second; else as fast as they are taken."""
    items: int
    """End after so many."""
    duration_s: float
    """End after so long."""
    options: Mapping[str, Any]
    """Of the app."""
    composition: str
    """The first one; without an SLO the only one."""
    strategy: str
    batch: int | Literal["auto"]
    """Items that travel together."""
    pool: Literal["ray", "local"]
    """Where stages run: worker processes, or threads of this one (light to start, one core's worth of Python)."""
    progress: bool
    """A bar on a terminal while the run is waited for; true unless told otherwise."""


def objective(*texts: str, threshold: float = 0.2) -> Slo:
    """What is wanted, as on the command line: several are to hold together. ``threshold``: how far beyond its target a
    violation begins. Raises: RecomposeError."""
    return together([parse_slo(text, threshold=threshold) for text in texts])


def wanted(slo: str | Sequence[str] | Slo | None) -> Slo | None:
    """Raises: RecomposeError."""
    if slo is None or isinstance(slo, Slo):
        return slo
    return objective(slo) if isinstance(slo, str) else objective(*slo)


def spec_of(app: str, source: Items | None, slo: Slo | None, sink: Sink | None, settings: Settings) -> RunSpec:
    """Raises: RecomposeError for the first value that is not accepted."""
    if unknown := settings.keys() - Settings.__annotations__.keys():
        raise RecomposeError(f"run takes no {sorted(unknown)[0]!r}; it takes {', '.join(Settings.__annotations__)}")
    try:
        return _checked(app, source, slo, sink, settings)
    except ValidationError as error:
        first = error.errors()[0]
        where, said = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
        raise RecomposeError(f"{where} = {first['input']!r}: {said[:1].lower()}{said[1:]}") from error
    except ValueError as error:
        raise RecomposeError(str(error)) from error


def _checked(app: str, source: Items | None, slo: Slo | None, sink: Sink | None, settings: Settings) -> RunSpec:
    ends = {key: value for key, value in settings.items() if key in ("items", "duration_s")}
    others = {key: value for key, value in settings.items() if key in ("options", "composition", "strategy", "pool")}
    rate = {"rate_per_s": settings["rate"]} if "rate" in settings else {}
    return RunSpec.model_validate(
        {
            "app": app,
            "source": _source(source).model_copy(update={"loop": bool(ends)}),
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
