"""Bundle sizes in answers: the requested size, the one in force, and its changes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from compositions.batching import Asked, Batching
from control.bundles.bundle_size import SizeRun
from service.schemas.base import Answer, Clock, Time


class Batch(Answer):
    """The limits of a bundle, which is closed by count, bytes or age, whichever comes first."""

    items: int | Literal["auto"]
    bytes: int
    linger_ms: float
    controller: Asked | None = None
    """Who is to choose the size; left out where ``items`` tells."""
    settings: dict[str, int | float] | None = None
    """Of the controller; left out with it."""

    @classmethod
    def of(cls, asked: Batching) -> Batch:
        control = asked.control
        named = {} if control is None else {"controller": control.name, "settings": control.said}
        return Batch.model_validate({**_limits(asked), **named})


def _limits(asked: Batching) -> dict[str, object]:
    items = "auto" if asked.items is None else asked.items
    return {"items": items, "bytes": asked.max_bytes, "linger_ms": asked.linger_ms}


class BatchingStatus(Batch):
    """The limits of a bundle with the size in use; null while there is no run. ``controller`` chooses the size now."""

    asked: Asked | None = None
    """The controller that was named; left out where none was. Without a latency objective it does not choose, and
    ``reason`` says so."""
    size: int | None
    reason: str | None

    @classmethod
    def of(cls, asked: Batching, **held: object) -> BatchingStatus:
        """``held``: what is known of a run, the controller at work with its settings, the size and its reason."""
        known: dict[str, object] = {**_limits(asked), "controller": asked.controller, "size": None, "reason": None}
        if asked.control is not None:
            known |= {"asked": asked.control.name, "settings": asked.control.said}
        return BatchingStatus.model_validate(known | held)


class SizeChange(Answer):
    """Changes of the size by one controller, one soon after the other."""

    controller: str
    """Who chose: ``fixed`` is who asked for it."""
    from_: int = Field(validation_alias="from", serialization_alias="from")
    """Items that travelled together before the first of them."""
    to: int
    """After the last one."""
    least: int
    most: int
    reason: str
    """Of the last one."""
    first_at: Time
    last_at: Time
    count: int
    run: str | None = None

    @classmethod
    def of(cls, changes: SizeRun, at: Clock, run: str | None) -> SizeChange:
        return cls(
            controller=changes.controller,
            from_=changes.from_items,
            to=changes.to_items,
            least=changes.least,
            most=changes.most,
            reason=changes.reason,
            first_at=at(changes.first_at_s),
            last_at=at(changes.last_at_s),
            count=changes.count,
            run=run,
        )
