"""Contenders of an experiment, and the measurements of their runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

from apps import registry
from compositions.batching import MOST_BYTES, MOST_LINGER_MS, Batching
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
    """A sample of a run, in seconds after its start. None: unknown."""

    at_s: float
    rate_per_s: float | None
    """Requested input rate since the previous sample; in virtual time, at the middle."""
    throughput_per_s: float
    """Items/s delivered since the previous sample."""
    latency_ms: float | None
    """Mean over the items delivered since the previous sample, each from its read to its delivery."""
    composition: str
    workers: int
    met: bool | None
    cpu_percent: float | None = None
    """CPU of the app's own processes; 100 is one core."""
    memory_mb: float | None = None
    """Memory of the same processes, without memory shared with other processes."""
    entered_per_s: float | None = None
    """Items/s accepted from the source since the previous sample."""
    batch_items: float | None = None
    """Mean size of the bundles that reached the sink since the previous sample."""
    inside_ms: float | None = None
    """Like ``latency_ms``, from when a worker took the item: without the wait before the first group."""


@dataclass(frozen=True)
class Measurement:
    """Figures of a run; ``achieved_per_s`` and the others refer to the time after the warm-up."""

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
    """Mean number of workers."""
    inside_ms: float | None = None
    """Mean latency from when a worker took the item; None: unknown."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(stored: dict[str, Any]) -> Measurement:
        return Measurement(**{**stored, "samples": tuple(Point(**sample) for sample in stored["samples"])})


def compositions_of(experiment: Experiment) -> tuple[Composition, ...]:
    """Return the compositions. Raises: RecomposeError for an unknown app, bad options, or a foreign profile."""
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
    """Return the contenders. Raises: RecomposeError for an unknown composition or class of input."""
    by_name = {composition.name: composition for composition in known}
    names = list(by_name) if experiment.static == "all" else list(experiment.static)
    missing = [name for name in names if name not in by_name]
    if missing:
        raise RecomposeError(f"{experiment.app} has no composition {missing[0]!r}; it has {', '.join(by_name)}")
    fixed = [each for name in names for each in _by_sizes(by_name[name], experiment.input.batches)]
    everyone = fixed + [Contender(strategy, strategy=strategy) for strategy in experiment.strategies]
    return [with_items for each in everyone for with_items in _by_items(each, experiment)]


def _by_items(contender: Contender, experiment: Experiment) -> list[Contender]:
    """Return the contender unchanged, or once for each number of items; several numbers become part of the name."""
    classes = registry.find(experiment.app).input_classes
    amounts = {asked: items_of(experiment.app, classes, asked) for asked in experiment.input.items}
    if len(amounts) < 2:
        return [replace(contender, items=each) for each in amounts.values()] or [contender]
    return [replace(contender, name=f"{contender.name}, {asked}", items=each) for asked, each in amounts.items()]


def _by_sizes(composition: Composition, sizes: Sequence[int]) -> list[Contender]:
    """Return the contender unchanged, or once for each bundle size."""
    if not sizes:
        return [Contender(composition.name, composition=composition)]
    named = {f"{composition.name} by {size}": bundles_of(size) for size in sizes}
    return [Contender(name, composition=replace(composition, name=name, batch=each)) for name, each in named.items()]


def bundles_of(items: int) -> Batching:
    """Return limits that only the count reaches: large items and a slow source do not close a bundle early."""
    return Batching(items, MOST_BYTES, MOST_LINGER_MS)


@dataclass(frozen=True, slots=True)
class Left:
    """An item that was delivered at ``at_s``; the latency counts from its read."""

    at_s: float
    latency_s: float
    batch_items: int = 0
    """Size of the bundle, if this is its last item; otherwise 0."""
    inside_s: float | None = None
    """Time since a worker took it."""


@dataclass(frozen=True)
class Seen:
    """The observations of one run by a driver."""

    samples: Sequence[Point]
    """In order of time; throughput, latency and bundles are filled in from ``items``."""
    items: Sequence[Left]
    """All delivered items, in order of time."""
    switches: int
    trials: int


def filled_in(samples: Sequence[Point], items: Sequence[Left]) -> tuple[Point, ...]:
    """Return ``samples`` with instantaneous figures (section 5), over the items since the previous sample."""
    found, first, before_s = [], 0, 0.0
    for sample in samples:
        last = bisect_right(items, sample.at_s, first, key=lambda item: item.at_s)
        new = items[first:last]
        sizes = [item.batch_items for item in new if item.batch_items]
        whole = replace(
            sample,
            throughput_per_s=len(new) / (sample.at_s - before_s),
            latency_ms=_mean_ms(item.latency_s for item in new),
            inside_ms=_mean_ms(item.inside_s for item in new),
            batch_items=fmean(sizes) if sizes else None,
        )
        found.append(whole)
        first, before_s = last, sample.at_s
    return tuple(found)


def _mean_ms(seconds: Iterable[float | None]) -> float | None:
    known = [each for each in seconds if each is not None]
    return fmean(known) * 1e3 if known else None


def measurement_of(contender: str, repetition: int, seen: Seen, warm_up_s: float) -> Measurement:
    """Summarize a run."""
    samples = filled_in(seen.samples, seen.items)
    counted = [sample for sample in samples if sample.at_s > warm_up_s]
    until_s = samples[-1].at_s if samples else 0.0
    late = [item for item in seen.items if warm_up_s < item.at_s <= until_s]
    known = [sample.met for sample in counted if sample.met is not None]
    asked = [sample.rate_per_s for sample in counted if sample.rate_per_s is not None]
    return Measurement(
        contender=contender,
        repetition=repetition,
        samples=samples,
        achieved_per_s=fmean(sample.throughput_per_s for sample in counted) if counted else 0.0,
        asked_per_s=fmean(asked) if asked else 0.0,
        latency_ms=_mean_ms(item.latency_s for item in late),
        met_share=sum(known) / len(known) if known else None,
        switches=seen.switches,
        trials=seen.trials,
        workers=fmean(sample.workers for sample in counted) if counted else 0.0,
        inside_ms=_mean_ms(item.inside_s for item in late),
    )
