"""The source that a spec names: opened by its kind, or the link to Spark's driver."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from apps.contract import App
from apps.input.kinds import open_source
from apps.input.sources import Source
from service.bodies.spec import SourceSpec

if TYPE_CHECKING:
    from datapipe.live.link import SparkLink


def source_of(spec: SourceSpec, app: App, link: SparkLink | None) -> Source:
    """Raises: RecomposeError for a source that gives no items."""
    if spec.of.driven and link is not None:
        return link
    return open_source(app, spec.kind, spec.path, clock=monotonic, loop=spec.loop, options=spec.options)
