"""How many items travel together, in answers: what is asked for, and what holds now."""

from __future__ import annotations

from typing import Literal

from compositions.batching import Batching
from service.bodies.base import Answer


class Batch(Answer):
    """When a bundle is closed: by count, bytes or age, whichever comes first."""

    items: int | Literal["auto"]
    bytes: int
    linger_ms: float

    @classmethod
    def of(cls, asked: Batching) -> Batch:
        return Batch(
            items="auto" if asked.items is None else asked.items, bytes=asked.max_bytes, linger_ms=asked.linger_ms
        )


class BatchingStatus(Batch):
    """With the size that is in use; null while there is no run."""

    controller: Literal["auto", "fixed"]
    """Who chooses the size."""
    size: int | None
    reason: str | None

    @classmethod
    def of(cls, asked: Batching, size: int | None = None, reason: str | None = None) -> BatchingStatus:
        controller: Literal["auto", "fixed"] = "auto" if asked.items is None else "fixed"
        return BatchingStatus(controller=controller, size=size, reason=reason, **dict(Batch.of(asked)))
