"""Which compositions a run can choose from, the one it begins with, and what a latency counts from."""

from __future__ import annotations

from collections.abc import Sequence

from apps.contract import App
from compositions.errors import RecomposeError
from compositions.model import Composition, Stage, all_sequential
from control.strategies.base import Strategy
from profiler.snapshot import LatencyFrom
from service.bodies.spec import RunSpec
from service.running.checking.shipped import choices_for


def compositions(spec: RunSpec, app: App) -> tuple[Composition, ...]:
    """Those of the spec; else those that come with the app and fit it."""
    return spec.compositions or choices_for(app)


def latency_from(spec: RunSpec, strategy: Strategy) -> LatencyFrom:
    """As told; else as the strategy has it."""
    return LatencyFrom(spec.latency_from) if spec.latency_from else strategy.latency_from


def first(spec: RunSpec, stages: tuple[Stage, ...], known: Sequence[Composition]) -> Composition:
    """The named one; else the one that runs every stage by itself, for the most accurate profile.

    Raises: RecomposeError for a name that is not known.
    """
    name, sequential = spec.composition, all_sequential(stages)
    for composition in known:
        if composition.name == name or (name is None and composition.shape == sequential.shape):
            return composition
    if name is None:
        return sequential
    names = ", ".join(composition.name for composition in known)
    raise RecomposeError(f"unknown composition {name!r}; {spec.app} has {names}")
