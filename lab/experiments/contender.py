"""Contenders of an experiment, and the measurements of their runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

from apps import registry
from compositions.batching import Batching
from compositions.errors import RecomposeError
from compositions.model import Composition, Stage
from compositions.notation import parse
from lab.experiments.spec import Experiment
from service.cli.texts import items_of
from service.runner.validation.resolution import choices_for


@dataclass(frozen=True)
class Contender:
    """A strategy at work, or a composition kept fixed."""

    name: str
    strategy: str | None = None
    composition: Composition | None = None
    items: int | None = None
    """Number of items that end its run."""


@dataclass(frozen=True)
class Point:
    """A moment of a run, seconds after its start. None: not known."""

    at_s: float
    rate_per_s: float | None
    """Input rate that was asked for, in the middle of the time since the sample before."""
    throughput_per_s: float
    """Delivered since the sample before."""
    latency_ms: float | None
    composition: str
    workers: int
    met: bool | None
    cpu_percent: float | None = None
    """CPU of the app's own processes; 100 is one core."""
    memory_mb: float | None = None
    """Memory of the same processes, without what they share with others."""
    entered_per_s: float | None = None
    """Accepted from the source since the sample before."""
    inside_ms: float | None = None
    """Like ``latency_ms``, from when a worker took the item: without the wait before the first group."""


@dataclass(frozen=True)
class Measurement:
    """``achieved_per_s`` and the others are of the time after the warm-up."""

    contender: str
    repetition: int
    samples: tuple[Point, ...]
    achieved_per_s: float
    asked_per_s: float
    latency_ms: float | None
    met_share: float | None
    switches: int
    trials: int
    workers: float
    """Mean number."""
    inside_ms: float | None = None
    """Mean latency from when a worker took the item; None: nobody says."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(stored: dict[str, Any]) -> Measurement:
        return Measurement(**{**stored, "samples": tuple(Point(**sample) for sample in stored["samples"])})


def compositions_of(experiment: Experiment) -> tuple[Composition, ...]:
    """Raises: RecomposeError for an unknown app, bad options or notations, a profile of other stages."""
    app = registry.create(experiment.app, experiment.options)
    stages: list[Stage] = list(app.stages)
    names = [stage.name for stage in stages]
    if experiment.driver == "simulated" and list(experiment.profile) != names:
        raise RecomposeError(
            f"the profile is of {', '.join(experiment.profile)}; {experiment.app} has {', '.join(names)}"
        )
    if not experiment.compositions:
        return choices_for(app)
    return tuple(
        parse(text, stages, app=experiment.app, name=name, default_replicas=2)
        for name, text in experiment.compositions.items()
    )


def contenders(experiment: Experiment, known: Sequence[Composition]) -> list[Contender]:
    """Raises: RecomposeError for a composition, or a class of input, that is not there."""
    by_name = {composition.name: composition for composition in known}
    names = list(by_name) if experiment.static == "all" else list(experiment.static)
    missing = [name for name in names if name not in by_name]
    if missing:
        raise RecomposeError(f"{experiment.app} has no composition {missing[0]!r}; it has {', '.join(by_name)}")
    fixed = [each for name in names for each in _by_sizes(by_name[name], experiment.input.batches)]
    everyone = fixed + [Contender(strategy, strategy=strategy) for strategy in experiment.strategies]
    return [with_items for each in everyone for with_items in _by_items(each, experiment)]


def _by_items(contender: Contender, experiment: Experiment) -> list[Contender]:
    """Return it as it is, or with each amount of items; several amounts are part of the name."""
    classes = registry.find(experiment.app).input_classes
    amounts = {asked: items_of(experiment.app, classes, asked) for asked in experiment.input.items}
    if len(amounts) < 2:
        return [replace(contender, items=each) for each in amounts.values()] or [contender]
    return [replace(contender, name=f"{contender.name}, {asked}", items=each) for asked, each in amounts.items()]


def _by_sizes(composition: Composition, sizes: Sequence[int]) -> list[Contender]:
    """Return it as it is, or once with bundles of each size."""
    if not sizes:
        return [Contender(composition.name, composition=composition)]
    named = {f"{composition.name} by {size}": Batching(size) for size in sizes}
    return [Contender(name, composition=replace(composition, name=name, batch=each)) for name, each in named.items()]


@dataclass(frozen=True)
class Seen:
    """A driver's observations of one run."""

    samples: Sequence[Point]
    latency_ms: float | None
    """Mean over the items after the warm-up."""
    switches: int
    trials: int
    inside_ms: float | None = None


def latency_by_items(samples: Sequence[Point], warm_up_s: float) -> float | None:
    """Return the mean latency in which every item counts once: each sample weighs as much as it delivered."""
    known = [(s.latency_ms, s.throughput_per_s) for s in samples if s.latency_ms is not None and s.at_s > warm_up_s]
    delivered = sum(weight for _, weight in known)
    return sum(latency_ms * weight for latency_ms, weight in known) / delivered if delivered else None


def measurement_of(contender: str, repetition: int, seen: Seen, warm_up_s: float) -> Measurement:
    """Summarize a run."""
    counted = [sample for sample in seen.samples if sample.at_s > warm_up_s]
    known = [sample.met for sample in counted if sample.met is not None]
    asked = [sample.rate_per_s for sample in counted if sample.rate_per_s is not None]
    return Measurement(
        contender=contender,
        repetition=repetition,
        samples=tuple(seen.samples),
        achieved_per_s=fmean(sample.throughput_per_s for sample in counted) if counted else 0.0,
        asked_per_s=fmean(asked) if asked else 0.0,
        latency_ms=seen.latency_ms,
        met_share=sum(known) / len(known) if known else None,
        switches=seen.switches,
        trials=seen.trials,
        workers=fmean(sample.workers for sample in counted) if counted else 0.0,
        inside_ms=seen.inside_ms,
    )
