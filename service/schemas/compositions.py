"""Apps, compositions and bundle sizes in answers, and predictions for compositions under other circumstances."""

from collections.abc import Sequence
from itertools import repeat
from math import isfinite
from typing import Any, Literal, Self

from pydantic import Field

from apps.contract import App
from apps.registry import is_bundled
from compositions.batching import Asked, Batching
from compositions.capacity.prediction import Prediction
from compositions.dynamic import SchedulerName
from compositions.model import Composition
from compositions.notation import format_notation
from control.bundles.bundle_size import SizeRun
from control.decisions import State
from control.expect import Unmeasured, expect
from control.what_if import Option, Outlook
from profiler.snapshot import Snapshot
from service.schemas.base import Answer, Clock, Time, ms, rounded


class Batch(Answer):
    """The limits of a bundle, which is closed by count, bytes or age, whichever comes first."""

    items: int | Literal["auto"]
    bytes: int
    linger_ms: float
    controller: Asked | None = None
    """Controller that is to choose the size; left out if ``items`` decides."""
    settings: dict[str, int | float] | None = None

    @classmethod
    def of(cls, asked: Batching) -> "Batch":
        control = asked.control
        named = {} if control is None else {"controller": control.name, "settings": control.said}
        return Batch.model_validate({**_bounds(asked), **named})


def _bounds(asked: Batching) -> dict[str, object]:
    items = "auto" if asked.items is None else asked.items
    return {"items": items, "bytes": asked.max_bytes, "linger_ms": asked.linger_ms}


class BatchingStatus(Batch):
    """The limits of a bundle with the size in use; null while there is no run. ``controller`` chooses the size now."""

    asked: Asked | None = None
    """The requested controller, if any. Without a latency objective it does not choose; ``reason`` says so."""
    size: int | None
    reason: str | None

    @classmethod
    def of(cls, asked: Batching, **held: object) -> "BatchingStatus":
        """Return the status. ``held``: the run's present controller, its settings, the size and its reason."""
        known: dict[str, object] = {**_bounds(asked), "controller": asked.controller, "size": None, "reason": None}
        if asked.control is not None:
            known |= {"asked": asked.control.name, "settings": asked.control.said}
        return BatchingStatus.model_validate(known | held)


class SizeChange(Answer):
    """A series of changes of the size by one controller, in quick succession."""

    controller: str
    """Controller that chose; ``fixed``: the user did."""
    from_: int = Field(validation_alias="from", serialization_alias="from")
    """Bundle size before the first change, in items."""
    to: int
    least: int
    most: int
    reason: str
    """Reason of the last change."""
    first_at: Time
    last_at: Time
    count: int
    run: str | None = None

    @classmethod
    def of(cls, changes: SizeRun, at: Clock, run: str | None) -> Self:
        span = {"first_at": at(changes.first_at_s), "last_at": at(changes.last_at_s)}
        return cls.taken_from(changes, from_=changes.from_items, to=changes.to_items, run=run, **span)


class StageInfo(Answer):
    name: str
    kind: str
    batch: bool = False
    columns: list[tuple[str, str]] = []
    """Names and Arrow types of the columns that a batch stage gets."""
    concurrency: int = 1
    """Maximum number of calls that wait at the same time in one worker."""


class AppInfo(Answer):
    name: str
    description: str
    stages: list[StageInfo]
    compositions: list[str]
    options: dict[str, Any]
    """JSON schema of the app's options."""
    input_classes: dict[str, int] = {}
    """Numbers of items by name, which ``--items`` of the command line accepts."""
    running: bool
    state: State
    bundled: bool = False

    @classmethod
    def of(cls, app: type[App], compositions: Sequence[Composition], state: State) -> Self:
        return cls.taken_from(
            app,
            stages=[StageInfo.model_validate(stage) for stage in app.stages],
            compositions=[composition.name for composition in compositions],
            options=app.options_model.model_json_schema(),
            running=state not in (State.STOPPED, State.FAILED),
            state=state,
            bundled=is_bundled(app),
        )


class Group(Answer):
    stages: list[str]
    pattern: Literal["seq", "par"]
    replicas: int


class Roaming(Answer):
    """Workers that move from group to group."""

    workers: int
    scheduler: SchedulerName
    settings: dict[str, int | float | str] = {}
    """All settings of the scheduler, with the values in use."""


class ActiveComposition(Answer):
    name: str
    notation: str
    workers: int
    groups: list[Group]
    batch: Batch | None = None
    """Bundle size while this composition is active; null: the app's."""
    dyn: Roaming | None = None
    """Null: workers are bound to a group. Otherwise ``replicas`` of a group is the maximum number of workers at it."""

    @classmethod
    def of(cls, composition: Composition) -> "ActiveComposition":
        dyn = composition.dyn
        return ActiveComposition.taken_from(
            composition,
            notation=format_notation(composition),
            groups=[Group.model_validate(group) for group in composition.groups],
            batch=None if composition.batch is None else Batch.of(composition.batch),
            dyn=None if dyn is None else Roaming.taken_from(dyn, settings=dyn.in_force),
        )


class Choice(ActiveComposition):
    """A composition that can be chosen. Predictions are null if there is no profile."""

    app: str
    active: bool
    predicted_throughput_per_s: float | None
    predicted_latency_ms: float | None
    predicted_bundle_items: float | None = None
    """Maximum number of items in a bundle."""

    @classmethod
    def offered(cls, app: str, composition: Composition, active: bool = False, told: Prediction | None = None) -> Self:
        """Return a choice. ``told``: the prediction from the profile of the running app."""
        return cls(
            app=app,
            active=active,
            predicted_throughput_per_s=rounded(told.throughput_per_s) if told else None,
            predicted_latency_ms=ms(told.latency_s) if told else None,
            predicted_bundle_items=rounded(told.bundle_items) if told else None,
            **dict(ActiveComposition.of(composition)),
        )

    @classmethod
    def all_of(cls, app: str, offered: Sequence[Composition], active: Composition, seen: Snapshot | None) -> list[Self]:
        """Return the compositions of a running app, with the predictions of the capacity model."""
        found = None if seen is None else expect(offered, seen)
        told = repeat(None) if found is None or isinstance(found, Unmeasured) else found
        pairs = zip(offered, told, strict=False)
        return [cls.offered(app, each, each.name == active.name, said) for each, said in pairs]


class Possibility(ActiveComposition):
    """A composition under other circumstances. Null: unknown or, for a latency, unbounded."""

    predicted_throughput_per_s: float | None
    predicted_latency_ms: float | None
    predicted_p95_ms: float | None = None
    overloaded: bool | None = None
    limited_by: list[str] | None = None
    """Stages of the group with the least capacity, or ``cores``."""
    meets: bool | None = None
    active: bool
    throughput_per_s_range: tuple[float, float] | None = None
    """From stage times as crowded as now (upper confidence limit) to uncrowded times (lower limit)."""
    latency_ms_range: tuple[float, float | None] | None = None
    """The same for latency, from least to most; the maximum is null if the queue grows."""


class StageTime(Answer):
    """The time of a stage per item: as measured now, without other work on its core, and on the CPU alone."""

    name: str
    service_time_ms: float
    free_time_ms: float
    cpu_time_ms: float


class WhatIf(Answer):
    app: str
    cores: int | float | None
    replicas: int | None
    input_rate_per_s: float | None
    choice: str | None
    """The composition that the manager would choose first."""
    reason: str
    compositions: list[Possibility]
    left_out: int
    crowding: float | None = None
    """Busy workers per core now, at least 1; predictions for other numbers of cores leave this effect out."""
    stages: list[StageTime] | None = None


SHOWN = 500
"""Maximum number of rows in an answer; further rows are only counted."""


def what_if_body(app: str, found: Outlook) -> WhatIf:
    return WhatIf.taken_from(
        *(found, found.question),
        app=app,
        choice=found.chosen,
        compositions=[_possibility(option) for option in found.options[:SHOWN]],
        left_out=max(len(found.options) - SHOWN, 0),
        stages=[
            StageTime(name=s.name, service_time_ms=ms(s.measured_s), free_time_ms=ms(s.free_s), cpu_time_ms=ms(s.cpu_s))
            for s in found.stages
        ],
    )


def _possibility(option: Option) -> Possibility:
    composition, told = option.composition, option.prediction
    return Possibility(
        predicted_throughput_per_s=rounded(told.throughput_per_s) if told else None,
        predicted_latency_ms=_finite_ms(told.latency_s) if told else None,
        predicted_p95_ms=_finite_ms(told.p95_s) if told else None,
        overloaded=told.overloaded if told else None,
        limited_by=_limits(composition, told) if told else None,
        meets=option.meets,
        active=option.active,
        throughput_per_s_range=_rates(option),
        latency_ms_range=_latencies(option),
        **dict(ActiveComposition.of(composition)),
    )


def _rates(option: Option) -> tuple[float, float] | None:
    if option.worst is None or option.best is None:
        return None
    return round(option.worst.throughput_per_s, 4), round(option.best.throughput_per_s, 4)


def _latencies(option: Option) -> tuple[float, float | None] | None:
    least_ms = _finite_ms(option.best.latency_s) if option.best else None
    return None if least_ms is None or option.worst is None else (least_ms, _finite_ms(option.worst.latency_s))


def _limits(composition: Composition, told: Prediction) -> list[str]:
    return list(composition.groups[told.bottleneck_group].stages) if told.limited_by == "group" else [told.limited_by]


def _finite_ms(seconds: float | None) -> float | None:
    return ms(seconds) if seconds is not None and isfinite(seconds) else None
