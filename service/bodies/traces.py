"""What became of single items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.bodies.base import Answer, Time, time_text


class Worked(Answer):
    """A stage on the item. Items of a bundle share its time evenly."""

    stage: str
    worked_ms: float
    cpu_ms: float


class Trace(Answer):
    """Of one item: held back, waited and worked on add up to its latency, unless stages work on it at once."""

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
    """Between reading and leaving, while no stage worked on it: for a worker, for its bundle, on its way, for its turn
    among the results."""
    worked_ms: float
    stages: list[Worked]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Trace:
        """``row``: of ``datapipe.telemetry.traces``."""
        due, read, left = row["arrived"], row.get("read"), row["delivered"]
        stages = [
            Worked(stage=each["stage"], worked_ms=_ms(each["wall_ns"] / 1e9), cpu_ms=_ms(each["cpu_ns"] / 1e9))
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
            latency_ms=_ms((left - due).total_seconds()),
            held_back_ms=None if read is None else _ms((read - due).total_seconds()),
            waited_ms=_ms(max(0.0, inside_s - worked_s)),
            worked_ms=_ms(worked_s),
            stages=stages,
        )


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)
