"""What a spec comes to once everything in it that could not run was refused."""

from __future__ import annotations

from dataclasses import replace

from compositions.settings import overridden
from control.settings import Settings
from control.strategies import check_takes, make_strategy
from runtime.dispatch.events import SwitchStyle
from service.bodies.spec import RunSpec
from service.running.checking import chosen
from service.running.checking.given import NOTHING, Given
from service.running.checking.kept import door_of, kept_of
from service.running.checking.rates import rate_of
from service.running.checking.settings import for_this_machine
from service.running.checking.sources import source_of
from service.running.checking.spark import open_link

__all__ = ["NOTHING", "CheckedSpec", "Given"]


class CheckedSpec:
    """Raises: RecomposeError for whatever in the spec cannot run, before anything starts."""

    def __init__(self, spec: RunSpec, given: Given = NOTHING) -> None:
        self.spec = spec
        self.make_app = given.maker(spec)
        self.app = self.make_app()
        self.stages = tuple(self.app.stages)
        self.settings = overridden(for_this_machine(), spec.settings)
        self.strategy = make_strategy(spec.strategy)
        check_takes(spec.strategy, spec.slo)
        self.latency_from = chosen.latency_from(spec, self.strategy)
        self.compositions = chosen.compositions(spec, self.app)
        self.first = chosen.first(spec, self.stages, self.compositions)
        _ = spec.batching.batching  # refuses what does not go together
        self.rate = rate_of(spec.input, spec.apps_dirs)
        self.link = open_link(spec, self.app)
        self.source = given.source() or source_of(spec.source, self.app, self.link)
        self.kept = kept_of(spec, self.source)
        self.pushes = door_of(spec.source.kind, self.app, self.source, self.kept)

    def close(self) -> None:
        """What is open, whether a run came of it or not."""
        self.source.close()
        if self.kept is not None:
            self.kept.writer.close()

    @property
    def style(self) -> SwitchStyle:
        """How one composition follows another."""
        return self.spec.switch_style or self.strategy.style

    @property
    def manager_settings(self) -> Settings:
        """With what this run judges by, and how it goes from one composition to another."""
        settings = self.settings.manager
        measuring = replace(settings.measuring, latency_from=self.latency_from)
        return replace(settings, measuring=measuring, style=self.style)
