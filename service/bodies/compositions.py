"""Compositions in answers: the active one, those that can be chosen, and what they would do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Literal

from compositions import model as compositions
from compositions.capacity.prediction import Prediction
from compositions.dynamic import Dyn, SchedulerName
from compositions.model import Composition
from compositions.notation import format_notation
from control.forecast.expect import Unmeasured, expect
from profiler.snapshot import Snapshot
from service.bodies.base import Answer, ms, rounded
from service.bodies.batching import Batch


class Group(Answer):
    stages: list[str]
    pattern: Literal["seq", "par"]
    replicas: int

    @classmethod
    def of(cls, group: compositions.Group) -> Group:
        return cls(stages=list(group.stages), pattern=group.pattern.value, replicas=group.replicas)


class Roaming(Answer):
    """Workers that go from group to group."""

    workers: int
    scheduler: SchedulerName
    settings: dict[str, int | float | str] = {}
    """All that the scheduler takes, as they are in force."""

    @classmethod
    def of(cls, dyn: Dyn | None) -> Roaming | None:
        if dyn is None:
            return None
        return Roaming(workers=dyn.workers, scheduler=dyn.scheduler, settings=dyn.in_force)


class ActiveComposition(Answer):
    name: str
    notation: str
    workers: int
    groups: list[Group]
    batch: Batch | None = None
    """How many items travel together while it is active; null: as is asked for the app."""
    dyn: Roaming | None = None
    """Null: workers are bound to a group. Else ``replicas`` of a group are the most that may be at it."""

    @classmethod
    def of(cls, composition: Composition) -> ActiveComposition:
        return ActiveComposition(
            name=composition.name,
            notation=format_notation(composition),
            workers=composition.workers,
            groups=[Group.of(group) for group in composition.groups],
            batch=None if composition.batch is None else Batch.of(composition.batch),
            dyn=Roaming.of(composition.dyn),
        )


class _OfApp(Answer):
    app: str


class Choice(ActiveComposition, _OfApp):
    """One that can be chosen. Null: there is no profile to predict from."""

    active: bool
    predicted_throughput_per_s: float | None
    predicted_latency_ms: float | None
    predicted_bundle_items: float | None = None
    """Items that travel together at most."""

    @classmethod
    def offered(
        cls, app: str, composition: Composition, active: bool = False, told: Prediction | None = None
    ) -> Choice:
        """``told``: what the profile of the running app says of it."""
        return cls(
            app=app,
            active=active,
            predicted_throughput_per_s=rounded(told.throughput_per_s) if told else None,
            predicted_latency_ms=ms(told.latency_s) if told else None,
            predicted_bundle_items=rounded(told.bundle_items) if told else None,
            **dict(ActiveComposition.of(composition)),
        )

    @classmethod
    def all_of(
        cls, app: str, offered: Sequence[Composition], active: Composition, snapshot: Snapshot | None
    ) -> list[Choice]:
        """What a running app can choose from, with the forecast that its strategy starts from."""
        found = None if snapshot is None else expect(offered, snapshot)
        told = repeat(None) if found is None or isinstance(found, Unmeasured) else found
        pairs = zip(offered, told, strict=False)
        return [cls.offered(app, each, each.name == active.name, said) for each, said in pairs]


class Possibility(ActiveComposition):
    """A composition under other circumstances; null: not known, or (latency) without end."""

    predicted_throughput_per_s: float | None
    predicted_latency_ms: float | None
    predicted_p95_ms: float | None = None
    overloaded: bool | None = None
    limited_by: list[str] | None = None
    """Stages of the group with the least capacity, or ``cores``."""
    meets: bool | None = None
    active: bool
    throughput_per_s_range: tuple[float, float] | None = None
    """From times as crowded as now, at the upper end of what their means are known to, to free ones at the lower."""
    latency_ms_range: tuple[float, float | None] | None = None
    """The same, least first; the most is null where the queue grows."""


class StageTime(Answer):
    """What a stage takes an item: as measured now, without other workers on its core, and of the CPU alone."""

    name: str
    service_time_ms: float
    free_time_ms: float
    cpu_time_ms: float


class WhatIf(Answer):
    app: str
    cores: int | None
    replicas: int | None
    input_rate_per_s: float | None
    choice: str | None
    """What the manager would do first."""
    reason: str
    compositions: list[Possibility]
    left_out: int
    crowding: float | None = None
    """Busy workers that share a core now; 1 where the cores are not the limit. It is taken off the times before other
    cores are asked about."""
    stages: list[StageTime] | None = None
