"""Bodies from telemetry: runs of an app with their figures, and traces of single items."""

from collections.abc import Mapping
from typing import Any, Self

from service.schemas.base import Answer, Time, ms, time_text
from service.schemas.figures import Latency
from service.schemas.slo import SloInForce
from service.schemas.status import Sample


class KnownRun(Answer):
    """A run of which telemetry is kept; its times are exact to ten seconds."""

    run: str
    began_at: Time
    ended_at: Time
    """Of the present run: when something was last written of it."""


class ItemCounts(Answer):
    """Counts of the items that were read from telemetry."""

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
    """The figures of a run, from telemetry. Figures that were not measured are null."""

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


class Worked(Answer):
    """A stage on the item. Items of a bundle share its time evenly."""

    stage: str
    worked_ms: float
    cpu_ms: float


class Trace(Answer):
    """The trace of an item. Its times held back, waited and worked make its latency, unless some overlap."""

    run: str
    serial: int
    composition: str
    """Empty for an item that was shed."""
    outcome: str
    due_at: Time
    """Since when a user waited."""
    left_at: Time
    latency_ms: float
    held_back_ms: float | None
    """Before the source read it; null where that was not written down."""
    waited_ms: float
    """Between reading and leaving, while no stage worked on it: for a worker, its bundle, its way, its turn."""
    worked_ms: float
    stages: list[Worked]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """``row``: of ``datapipe.telemetry.past``."""
        due, read, left = row["arrived"], row.get("read"), row["delivered"]
        stages = [
            Worked(stage=each["stage"], worked_ms=ms(each["wall_ns"] / 1e9), cpu_ms=ms(each["cpu_ns"] / 1e9))
            for each in row["stages"] or ()
        ]
        worked_s = sum(each.worked_ms for each in stages) / 1e3
        inside_s = (left - (read or due)).total_seconds()
        return cls(
            run=row["run"],
            serial=row["serial"],
            composition=row["composition"],
            outcome=row["outcome"],
            due_at=time_text(due.timestamp()),
            left_at=time_text(left.timestamp()),
            latency_ms=ms((left - due).total_seconds()),
            held_back_ms=None if read is None else ms((read - due).total_seconds()),
            waited_ms=ms(max(0.0, inside_s - worked_s)),
            worked_ms=ms(worked_s),
            stages=stages,
        )
