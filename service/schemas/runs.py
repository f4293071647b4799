"""Bodies from telemetry: runs of an app with their figures, and traces of single items."""

from collections.abc import Mapping
from typing import Any, Self

from service.schemas.base import Answer, Time, ms, time_text
from service.schemas.figures import Latency
from service.schemas.slo import SloInForce
from service.schemas.status import Sample


class KnownRun(Answer):
    """A run that has telemetry; its times are exact to ten seconds."""

    run: str
    began_at: Time
    ended_at: Time
    """End of the run; for the present run, the time when its telemetry was last written."""


class ItemCounts(Answer):
    """Counts of the items that were read from telemetry."""

    delivered: int
    failed: int
    shed: int
    all_of_them: bool
    """False: the run is long, so only every n-th file was read, and the counts cover only these files."""


class CompositionShare(Answer):
    name: str
    share: float
    """Share of the run's time."""


class RunFigures(Answer):
    """The figures of a run, from telemetry. Figures that were not measured are null."""

    run: str
    began_at: Time
    ended_at: Time
    length_s: float
    slo: SloInForce | None
    """The last objective of the run."""
    slo_met_share: float | None
    """Share of the seconds with a verdict in which the SLO was met."""
    offered_per_s: float | None
    """Mean over the run; the same holds for the other rates and for the workers."""
    delivered_per_s: float | None
    latency_ms: Latency
    """Latency of the items that were read."""
    items: ItemCounts
    workers: float | None
    """Mean number of worker processes, including spares."""
    worker_s: float | None
    cpu_ms_per_item: float | None
    """CPU time of the stages per item."""
    decisions: int
    switches: int
    compositions: list[CompositionShare]
    """Compositions that were active, the longest-active first."""
    course: list[Sample]
    """Samples, oldest first; for a long run, only some periods of ten seconds."""


class Worked(Answer):
    """The work of a stage on an item. Items of a bundle share its time evenly."""

    stage: str
    worked_ms: float
    cpu_ms: float


class Trace(Answer):
    """The trace of an item. Its times held back, waited and worked add up to its latency, unless some overlap."""

    run: str
    serial: int
    composition: str
    """Active composition; empty for an item that was shed."""
    outcome: str
    due_at: Time
    """Time since which a user waited for the item."""
    left_at: Time
    latency_ms: float
    held_back_ms: float | None
    """Time before the source read the item; null if it was not recorded."""
    waited_ms: float
    """Time between reading and leaving without work of a stage: waiting for a worker, bundle, transport or turn."""
    worked_ms: float
    stages: list[Worked]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Return the trace of a ``row`` of ``datapipe.telemetry.past``."""
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
