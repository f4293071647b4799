"""The schema of an experiment file."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from apps import registry
from apps.rates import Custom, Rate
from compositions.batching import MOST_ITEMS
from compositions.document.safe_yaml import read_yaml
from compositions.errors import RecomposeError
from control.strategies import check_takes
from datapipe.sources.rate_spec import CUSTOM, RateSpec, from_spec
from lab.simulation.machine import Threads
from lab.simulation.scenario import steps
from profiler.budget import parse_budget
from profiler.slo import Slo, parse_slo, together

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StageSpec(Closed):
    """Cost of a stage for the simulated driver, as ``/status`` shows it of a real run."""

    ms: Positive
    cv: float = Field(default=0.0, ge=0)
    wait_share: float = Field(default=0.0, ge=0, le=1)
    factors: tuple[tuple[float, float], ...] = ()
    """Factors of its time, each from a time on (s); linear in between."""


class Load(Closed):
    """Input rate: ``steps`` of [from s, items/s], a pattern, or ``full``: as fast as items are accepted. Rates are
    items/s, or (``share``) shares of the rate that ``composition`` sustains, which is measured first."""

    steps: tuple[tuple[float, float], ...] = ()
    pattern: str | None = Field(
        default=None, pattern=r"^(wave|binary|increasing|decreasing|spike|trace|custom:\w+:\w+)$"
    )
    """Pattern; ``custom:module:function`` names a function of a module in the folder ``path``."""
    period_s: Positive | None = None
    min: float = Field(default=0.1, ge=0)
    max: Positive | None = None
    size_percent: float = Field(default=10.0, gt=0, le=100)
    path: str | None = None
    """Path of a trace, of the folder of a custom pattern, or of the data that the app reads on real workers."""
    full: bool = False
    items: tuple[Annotated[int, Field(strict=True, ge=1)] | str, ...] = ()
    """Number of items after which a run ends, or a class of input of the app: ``small``, ``huge`` …; it ends after
    ``duration_s`` at the latest. With several values, every static composition runs once with each."""
    batches: tuple[Annotated[int, Field(ge=1, le=MOST_ITEMS)], ...] = ()
    """Bundle sizes; every static composition runs once with each."""
    batch_steps: tuple[tuple[float, Annotated[int, Field(ge=1, le=MOST_ITEMS)]], ...] = ()
    """Bundle sizes, each from a time on (s)."""
    share: bool = False
    composition: str | None = None
    arrivals: Literal["paced", "poisson"] = "paced"
    """Arrivals in virtual time: evenly spaced, or at random times (Poisson)."""
    control: Literal["slots", "delays"] = "slots"
    """Pace on real workers: by the product's schedule, or by SPBench's delays (:mod:`lab.experiments.spbench`)."""

    @model_validator(mode="after")
    def _one_form(self) -> Load:
        if sum(map(bool, (self.steps, self.pattern, self.full))) != 1:
            raise ValueError("give either steps, [[from s, items/s], …], or a pattern, or full: true")
        if self.steps and self.steps[0][0] != 0:
            raise ValueError("the first of the steps must begin at 0 s")
        if self.share and self.composition is None:
            raise ValueError("shares need a composition, whose throughput is measured first")
        return self

    @property
    def place(self) -> Path | None:
        """Return ``path`` with environment variables ``$NAME`` replaced."""
        return Path(os.path.expandvars(self.path)) if self.path else None

    @property
    def data_set(self) -> str | None:
        """Return the path that the app reads; None: its own data."""
        of_pattern = self.pattern is not None and (self.pattern == "trace" or self.pattern.startswith(CUSTOM))
        return str(self.place) if self.place and not of_pattern else None

    def rate(self, sustainable_per_s: float) -> Rate | None:
        """Return the rate; None: always full. Raises: RecomposeError for an invalid rate."""
        if self.full:
            return None
        unit = sustainable_per_s if self.share else 1.0
        if self.steps:
            return steps([(from_s, per_s * unit) for from_s, per_s in self.steps])
        if self.pattern == "trace":
            return _checked(RateSpec(pattern="trace", path=self.place, period_s=self.period_s))
        if self.pattern and self.pattern.startswith(CUSTOM):
            custom = _checked(RateSpec(pattern=self.pattern), self.place or Path())
            assert isinstance(custom, Custom)
            return replace(custom, factor=unit)
        low, top = self.min * unit, None if self.max is None else self.max * unit
        return _checked(RateSpec(None, self.pattern, self.period_s, low, top, self.size_percent))


def _checked(spec: RateSpec, folder: Path = Path()) -> Rate:
    rate = from_spec(spec, partial(registry.module_named, apps_dirs=[folder]))
    assert rate is not None, "a pattern was given"
    return rate


class Together(Closed):
    """Several objectives at once, with their budget."""

    all: tuple[str, ...]
    budget: str | None = None
    """Budget: ``workers=8``, ``cores=3`` or both."""


class Experiment(Closed):
    """One figure: an app under a load, by several contenders, one after the other."""

    title: str
    shows: str
    """One sentence under the plots, and which figure of which paper it corresponds to."""
    app: str
    options: dict[str, Any] = Field(default_factory=dict)
    driver: Literal["simulated", "ray", "local"] = "simulated"
    profile: dict[str, StageSpec] = Field(default_factory=dict)
    cores: int = Field(default=8, ge=1, le=1024)
    """Cores of the simulated machine."""
    threads: Threads | None = None
    """Threads of the simulated machine, two on each core; none: all computing workers share the cores evenly."""
    compositions: dict[str, str] = Field(default_factory=dict)
    """Notations by name; none: the app's own compositions."""
    input: Load
    slo: Together | str | None = None
    strategies: tuple[Literal["expected-cost", "vogel", "pdp21", "spar", "two-sided"], ...] = ()
    static: tuple[str, ...] | Literal["all"] = ()
    """Compositions that are kept fixed, for comparison."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the runs by name; in virtual time, those of manager and dispatcher."""
    duration_s: Positive = 60.0
    warm_up_s: float = Field(default=0.0, ge=0)
    """Time at the start that the figures of a table leave out: start, profile, settling."""
    monitor_ms: Annotated[float, Field(ge=50, le=60_000)] = 250.0
    """Time over which instantaneous figures are taken (SPBench's ``-monitor``)."""
    repetitions: int = Field(default=1, ge=1, le=100)
    seed: int = 1
    ordered: bool = True
    """False only on real workers: an item leaves when its last stage has ended, as with SPBench's Ferret."""
    first: str | None = None
    """Composition that a strategy starts from; none: all stages sequential."""
    plot: Literal["time", "bars"] = "time"
    quick: dict[str, Any] = Field(default_factory=dict)
    """Fields that ``--quick`` changes."""

    @field_validator("slo")
    @classmethod
    def _is_an_slo(cls, asked: Together | str | None) -> Together | str | None:
        try:
            _ = asked is None or _slo_of(asked)
        except RecomposeError as error:
            raise ValueError(str(error)) from error  # pydantic reports it together with the other faults
        return asked

    @model_validator(mode="after")
    def _complete(self) -> Experiment:
        if not self.strategies and not self.static:
            raise ValueError("nothing to run: give strategies, static compositions, or both")
        if self.strategies and self.slo is None:
            raise ValueError("strategies need an slo to work for")
        if self.strategies and len(self.input.items) > 1:
            raise ValueError("strategies are compared on one amount of items; several are for static compositions")
        for each in self.strategies:
            _taken(each, self.objective)
        if self.driver == "simulated" and not self.profile:
            raise ValueError("the simulated driver needs a profile: what each stage costs")
        if self.driver != "simulated" and self.input.arrivals != "paced":
            raise ValueError("arrivals: poisson is for the simulated driver; real workers get items at a rate")
        if self.warm_up_s >= self.duration_s:
            raise ValueError(f"warm_up_s = {self.warm_up_s:g} leaves nothing of duration_s = {self.duration_s:g}")
        return self

    @property
    def objective(self) -> Slo | None:
        return None if self.slo is None else _slo_of(self.slo)


def _slo_of(asked: Together | str) -> Slo:
    """Return the objective. Raises: RecomposeError."""
    if isinstance(asked, str):
        return parse_slo(asked)
    return together([parse_slo(each) for each in asked.all], parse_budget(asked.budget) if asked.budget else None)


def _taken(strategy: str, slo: Slo | None) -> None:
    try:
        check_takes(strategy, slo)
    except RecomposeError as error:
        raise ValueError(str(error)) from error


def read_experiments(path: Path, quick: bool = False) -> dict[str, Experiment]:
    """Read the experiments of a file by name: one, or with ``each`` one per entry there, which lists the differences.

    Raises: RecomposeError with every fault of the file.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecomposeError(f"cannot read experiment {str(path)!r}: {error}") from error
    document = read_yaml(text)
    if not isinstance(document, dict):
        raise RecomposeError(f"{path}: an experiment is a mapping with title, app, input …")
    each = document.pop("each", None)
    if each is None:
        return {path.stem: _experiment(path, document, quick)}
    if not isinstance(each, dict) or not all(isinstance(changes, dict) for changes in each.values()):
        raise RecomposeError(f"{path}: each is a mapping of names to what is different there")
    return {f"{path.stem}-{name}": _experiment(path, _merged(document, name, each[name]), quick) for name in each}


def _merged(document: dict[str, Any], name: str, changes: dict[str, Any]) -> dict[str, Any]:
    """Return ``document`` with ``changes``; a mapping, such as the input, is merged, not replaced."""
    titled = {**document, "title": f"{document.get('title')}: {name}"}
    both = {key: {**titled[key], **value} for key, value in changes.items() if _are_mappings(titled.get(key), value)}
    return {**titled, **changes, **both}


def _are_mappings(*values: Any) -> bool:
    return all(isinstance(value, dict) for value in values)


def _experiment(path: Path, document: dict[str, Any], quick: bool) -> Experiment:
    try:
        experiment = Experiment.model_validate(document)
        return Experiment.model_validate({**document, **experiment.quick}) if quick else experiment
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, each['loc'])) or 'experiment'}: {each['msg']}" for each in error.errors()]
        raise RecomposeError("\n".join(f"{path}: {fault}" for fault in faults)) from error
