"""What a run is made of: what was asked for, what all runs share, and what is stored of its app."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from apps import registry
from apps.contract import App
from compositions.model import Composition
from service.bodies.spec import RunSpec
from service.daemon.choices import Choices
from service.daemon.storing.store import DaemonStore
from service.running.checking.shipped import choices_for


class Specs:
    """``base`` carries what all runs share: the directories of apps, the kind of pool, telemetry."""

    def __init__(self, apps: Mapping[str, type[App]], store: DaemonStore, base: RunSpec) -> None:
        self.choices = Choices(apps, store)
        self._store, self._base = store, base

    def complete(self, spec: RunSpec) -> RunSpec:
        stored = self._store.slo(spec.app)
        return spec.model_copy(
            update={
                "apps_dirs": self._base.apps_dirs,
                "pool": self._base.pool,
                "telemetry": self._base.telemetry,
                "journals": self._base.journals,
                "compositions": self.compositions(spec),
                "slo": stored.slo if stored else None,
            }
        )

    def compositions(self, spec: RunSpec) -> tuple[Composition, ...]:
        """Those of the app that fit ``spec``, whose options may have changed its stages."""
        app = registry.create(spec.app, spec.options, [Path(folder) for folder in self._base.apps_dirs])
        return choices_for(app, self.choices.of(spec.app))
