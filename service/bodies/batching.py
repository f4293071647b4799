"""How many items travel together, in answers: what is asked for, and what holds now."""

from __future__ import annotations

from typing import Literal

from compositions.batching import Asked, Batching
from service.bodies.base import Answer


class Batch(Answer):
    """When a bundle is closed: by count, bytes or age, whichever comes first."""

    items: int | Literal["auto"]
    bytes: int
    linger_ms: float
    controller: Asked
    """Who is to choose the size."""
    settings: dict[str, int | float]
    """Of the controller; empty where none was named."""

    @classmethod
    def of(cls, asked: Batching) -> Batch:
        return Batch(
            items="auto" if asked.items is None else asked.items,
            bytes=asked.max_bytes,
            linger_ms=asked.linger_ms,
            controller=asked.controller,
            settings={} if asked.control is None else asked.control.said,
        )


class BatchingStatus(Batch):
    """With the size that is in use; null while there is no run. Here ``controller`` is who chooses the size now, and
    ``settings`` are those in force, with what it aims at."""

    asked: Asked
    """The controller that was asked for. Without a latency objective none chooses, and ``reason`` says so."""
    size: int | None
    reason: str | None

    @classmethod
    def of(cls, asked: Batching, size: int | None = None, reason: str | None = None) -> BatchingStatus:
        known = dict(Batch.of(asked))
        return BatchingStatus(asked=asked.controller, size=size, reason=reason, **known)
