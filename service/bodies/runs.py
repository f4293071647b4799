"""Runs that are over, and the present one: which there are, and what each came to, to be laid beside another."""

from __future__ import annotations

from service.bodies.base import Answer, Time
from service.bodies.figures import Latency
from service.bodies.slo import SloInForce
from service.bodies.status import Sample


class KnownRun(Answer):
    """As far as telemetry is kept; to ten seconds."""

    run: str
    began_at: Time
    ended_at: Time
    """Of the present run: when something was last written of it."""


class ItemCounts(Answer):
    """Of the items that were looked at."""

    delivered: int
    failed: int
    shed: int
    all_of_them: bool
    """False: of a long run every so many-th file was read, and the counts are of these."""


class CompositionShare(Answer):
    name: str
    share: float
    """Of the time of the run."""


class RunFigures(Answer):
    """What a run came to, from telemetry. What was not measured is null."""

    run: str
    began_at: Time
    ended_at: Time
    length_s: float
    slo: SloInForce | None
    """The last one."""
    slo_met_share: float | None
    """Of the seconds with a verdict."""
    offered_per_s: float | None
    """Mean over the run, as the other rates, and the workers."""
    delivered_per_s: float | None
    latency_ms: Latency
    """Of the items that were looked at."""
    items: ItemCounts
    workers: float | None
    """Processes, spares among them."""
    worker_s: float | None
    cpu_ms_per_item: float | None
    """CPU time of the stages."""
    decisions: int
    switches: int
    compositions: list[CompositionShare]
    """Those that were active, the longest first."""
    course: list[Sample]
    """Oldest first; of a long run a stretch of ten seconds now and then."""
