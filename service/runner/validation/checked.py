"""A validated spec: it can run; its source is open, or its link to Spark is made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from apps.contract import App
from apps.expectations import read_item
from compositions.enumeration import own_list
from compositions.errors import RecomposeError
from compositions.model import Composition, Stage, all_sequential, held_by
from compositions.resources import need_of
from control.decisions import Mode
from control.settings import Settings
from control.strategies import check_takes, make_strategy
from control.strategies.base import Strategy, cheapness
from datapipe.source_kinds import open_source
from datapipe.sources.sources import Source
from profiler.snapshot import LatencyFrom
from runtime.dispatch.events import SwitchStyle
from service.runner.validation import resolution
from service.runner.validation.durable import open_durable, push_door
from service.schemas.requests import present_strategy
from service.schemas.spec import RunSpec, SourceSpec

if TYPE_CHECKING:
    from datapipe.spark.link import SparkLink


class CheckedSpec:
    """A spec that was checked before anything starts. Raises: RecomposeError for any part that cannot run."""

    def __init__(self, spec: RunSpec, overrides: resolution.Overrides = resolution.NO_OVERRIDES) -> None:
        self.spec = spec
        self.make_app = overrides.maker(spec)
        self.app = self.make_app()
        self.app.stages = resolution.stages_of(self.app, spec)
        self.strategy = make_strategy(str(present_strategy(spec.method.strategy)))
        reserves = need_of(held_by(self.stages, ())).is_declared and spec.pool == "ray"
        asked = {"drain_sample": self.strategy.drain_sample} | spec.settings
        self.settings = resolution.settings_for(asked, keeps_warm=self.strategy.keeps_warm, reserves=reserves)
        check_takes(spec.method.strategy, spec.slo)
        told = spec.method.latency_from
        self.latency_from = LatencyFrom(told) if told else self.strategy.latency_from
        cores = resolution.usable_cores(spec.pool)
        self.compositions = spec.compositions or resolution.choices_for(self.app, cores=cores)
        self.listed = bool(spec.compositions) or self.compositions != own_list(self.stages, cores)
        """True if a user listed the compositions."""
        self.first = _first(spec, self.strategy, self.stages, self.compositions)
        _ = spec.batching.batching  # refuses settings that do not fit together
        self.rate = resolution.rate_of(spec.input, spec.apps_dirs)
        self.link = open_link(spec, self.app)
        self.source = overrides.source() or source_of(spec.source, self.app, self.link)
        self.stored = open_durable(spec, self.source)
        self.pushes = push_door(spec.source.kind, self.app, self.source, self.stored)

    def close(self) -> None:
        """Close everything that is open, even if there was no run."""
        self.source.close()
        if self.stored is not None:
            self.stored.close()

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of this instance; its options may have changed them."""
        return tuple(self.app.stages)

    @property
    def style(self) -> SwitchStyle:
        """The way in which one composition follows another."""
        return self.spec.method.switch_style or self.strategy.style

    @property
    def manager_settings(self) -> Settings:
        """The manager's settings, with this run's start of latency and style of switches."""
        settings = self.settings.manager
        measuring = replace(settings.measuring, latency_from=self.latency_from)
        return replace(settings, measuring=measuring, style=self.style)


def _first(spec: RunSpec, strategy: Strategy, stages: tuple[Stage, ...], known: Sequence[Composition]) -> Composition:
    """Return the named composition, else the one with which the strategy begins. Raises: RecomposeError if unknown."""
    name = spec.composition
    if name is not None:
        if (named := next((each for each in known if each.name == name), None)) is not None:
            return named
        names = ", ".join(composition.name for composition in known)
        raise RecomposeError(f"unknown composition {name!r}; {spec.app} has {names}")
    if strategy.begins_cheap and spec.slo is not None and spec.mode is Mode.AUTO:
        return min(known, key=cheapness)
    sequential = all_sequential(stages)
    return next((each for each in known if each.shape == sequential.shape), sequential)


def source_of(spec: SourceSpec, app: App, link: SparkLink | None) -> Source:
    """Return the source. Raises: RecomposeError for a source without items."""
    if spec.of.driven and link is not None:
        return link
    return open_source(app, spec.kind, spec.path, clock=monotonic, loop=spec.loop, options=spec.options)


def open_link(spec: RunSpec, app: App) -> SparkLink | None:
    """Return the link to Spark, not started, or None. Raises: NoJava; RecomposeError for a bad field or folder."""
    if spec.source.fault is not None:
        raise RecomposeError(spec.source.fault)
    is_stream = spec.source.of.driven
    wanted = spec.sink if spec.sink is not None and spec.sink.kind == "spark" else None
    if not is_stream and wanted is None:
        return None
    from datapipe.spark.link import SparkLink, new_query
    from datapipe.spark.messages import Setup, StreamSource, TableSink
    from datapipe.spark.session import java_home

    java_home()
    sink = source = None
    if wanted is not None:
        sink = TableSink(_place(wanted.path), wanted.format, _texts(wanted.options), wanted.schema_)
    if is_stream:
        transform = _text_of(spec.source.transform) if spec.source.transform else None
        source = StreamSource(str(spec.source.format), spec.source.path, _texts(spec.source.options), transform)
    checkpoint = spec.source.checkpoint or (f"{sink.path}/_checkpoint" if sink and source else None)
    setup = Setup(spec.app, source, sink, checkpoint, once=not spec.source.loop, query=new_query())
    return SparkLink(setup, partial(read_item, app), clock=monotonic)


def _texts(options: Mapping[str, str | bool | float]) -> dict[str, str]:
    """Return option values as texts for Spark: numbers and booleans as in JSON."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in options.items()}


def _text_of(file: str) -> str:
    try:
        return Path(file).expanduser().read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise RecomposeError(f"transform {file!r} cannot be read ({error}); give a file with an SQL query") from error


def _place(path: str) -> str:
    """Return an absolute path, as the driver may run elsewhere. Raises: RecomposeError if a file is there."""
    if "://" in path:
        return path
    place = Path(path).expanduser().absolute()
    if place.exists() and not place.is_dir():
        raise RecomposeError(f"sink path {str(place)!r} is a file; give a folder")
    return str(place)
