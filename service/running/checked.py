"""What a spec comes to once everything in it that could not run was refused."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from apps import registry
from apps.input.rate_spec import from_spec
from compositions.errors import RecomposeError
from compositions.model import Composition, all_sequential
from compositions.settings import overridden
from control.settings import Settings
from control.strategies import make_strategy
from profiler.snapshot import LatencyFrom
from service.bodies.spec import RunSpec
from service.running.pushes import PushDoor
from service.running.settings import RunSettings
from service.running.shipped import choices_for
from service.running.sources import source_of
from service.running.spark import open_link


class CheckedSpec:
    """Raises: RecomposeError for whatever in the spec cannot run, before anything starts."""

    def __init__(self, spec: RunSpec) -> None:
        dirs = [Path(directory) for directory in spec.apps_dirs]
        self.spec = spec
        self.make_app = partial(registry.create, spec.app, dict(spec.options), dirs)
        self.app = self.make_app()
        self.stages = tuple(self.app.stages)
        self.settings = overridden(RunSettings(), spec.settings)
        self.strategy = make_strategy(spec.strategy)
        self.latency_from = LatencyFrom(spec.latency_from) if spec.latency_from else self.strategy.latency_from
        self.compositions = spec.compositions or choices_for(self.app)
        self.first = self._first()
        self.rate = from_spec(spec.input.rate)
        self.link = open_link(spec, self.app)
        self.source = source_of(spec.source, self.app, self.link)
        self.pushes = PushDoor(self.app, self.source, spec.source.kind)

    @property
    def manager_settings(self) -> Settings:
        """With what this run judges by."""
        settings = self.settings.manager
        return replace(settings, measuring=replace(settings.measuring, latency_from=self.latency_from))

    def _first(self) -> Composition:
        """The named one; else the one that runs every stage by itself, for the most accurate profile."""
        name, sequential = self.spec.composition, all_sequential(self.stages)
        for composition in self.compositions:
            if composition.name == name or (name is None and composition.shape == sequential.shape):
                return composition
        if name is None:
            return sequential
        known = ", ".join(composition.name for composition in self.compositions)
        raise RecomposeError(f"unknown composition {name!r}; {self.spec.app} has {known}")
