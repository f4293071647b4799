"""Spark as source or sink of a run: what the link to its driver is given. Spark stays in the driver's process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from apps.contract import App
from compositions.errors import RecomposeError
from service.bodies.spec import RunSpec, SinkSpec, SourceSpec

if TYPE_CHECKING:
    from datapipe.live.link import SparkLink
    from datapipe.live.messages import StreamSource, TableSink


def open_link(spec: RunSpec, app: App) -> SparkLink | None:
    """The link, not started yet; None when neither source nor sink is Spark's.

    Raises: NoJava; RecomposeError for a source whose fields do not fit together, a transform that cannot be read, a
    sink folder that cannot be a table.
    """
    if spec.source.fault is not None:
        raise RecomposeError(spec.source.fault)
    is_stream = spec.source.of.driven
    wanted = spec.sink if spec.sink is not None and spec.sink.kind == "spark" else None
    if not is_stream and wanted is None:
        return None
    from datapipe.live.link import SparkLink, new_query
    from datapipe.live.messages import Setup
    from datapipe.session import java_home

    java_home()
    sink = _sink(wanted) if wanted is not None else None
    source = _source(spec.source) if is_stream else None
    checkpoint = spec.source.checkpoint or (f"{sink.path}/_checkpoint" if sink and source else None)
    setup = Setup(spec.app, source, sink, checkpoint, once=not spec.source.loop, query=new_query())
    return SparkLink(setup, app.from_json, clock=monotonic)


def _source(spec: SourceSpec) -> StreamSource:
    from datapipe.live.messages import StreamSource

    transform = _text_of(spec.transform) if spec.transform else None
    return StreamSource(str(spec.format), spec.path, _texts(spec.options), transform)


def _sink(spec: SinkSpec) -> TableSink:
    from datapipe.live.messages import TableSink

    return TableSink(_place(spec.path), spec.format, _texts(spec.options), spec.schema_)


def _texts(options: Mapping[str, str | bool | float]) -> dict[str, str]:
    """As Spark takes them: numbers and booleans as in JSON."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in options.items()}


def _text_of(file: str) -> str:
    try:
        return Path(file).expanduser().read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise RecomposeError(f"transform {file!r} cannot be read ({error}); give a file with an SQL query") from error


def _place(path: str) -> str:
    """An absolute path, as the driver may run elsewhere. Raises: RecomposeError where a file stands."""
    if "://" in path:
        return path
    place = Path(path).expanduser().absolute()
    if place.exists() and not place.is_dir():
        raise RecomposeError(f"sink path {str(place)!r} is a file; give a folder")
    return str(place)
