"""A switch under way is in one of two phases: *preparing* until its workers are there, then *draining* until the old
composition is empty. A resize has one, *resizing* until its workers are there.

Times and figures only: :mod:`runtime.dispatch.transition` moves from one to the other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from compositions.model import TransitionKind
from runtime.dispatch.events import SwitchRequested, SwitchStyle
from runtime.dispatch.outcomes import SwitchEnded
from runtime.dispatch.pipeline import Pipeline


@dataclass(slots=True)
class Awaiting:
    """Workers that the new composition needs are started; no item has moved."""

    kind: ClassVar[TransitionKind]

    request: SwitchRequested
    from_name: str
    limit_at_s: float

    def may_feed(self, now_s: float) -> bool:
        """The active composition is the old one: nothing has changed for it."""
        return True

    def next_deadline_s(self, now_s: float) -> float:
        return self.limit_at_s

    def ended(self, now_s: float, error: str | None) -> SwitchEnded:
        """It was refused, failed before an item moved, or is a resize that is done."""
        asked = self.request
        return SwitchEnded(now_s, self.from_name, asked.composition.name, asked.style, error=error, kind=self.kind)


@dataclass(slots=True)
class Preparing(Awaiting):
    """The old composition runs as before."""

    kind = TransitionKind.SWITCH


@dataclass(slots=True)
class Resizing(Awaiting):
    """The groups have their new numbers of replicas already: who is there stands by them, and others as they join."""

    kind = TransitionKind.RESIZE


@dataclass(slots=True)
class Draining:
    """The old composition, ``pipeline``, gets no more items; the new one is active."""

    request: SwitchRequested
    pipeline: Pipeline
    handed_over_s: float
    feed_at_s: float
    """From then on the new composition gets items, though the old one still has some."""
    held_until_s: float
    """Until then the drain goes on, though the old composition may be empty."""
    overdue_at_s: float
    limit_at_s: float
    estimate_s: float
    had_items: bool
    overdue: bool = False
    emptied_s: float | None = None
    """When the old composition was empty; None: it is not."""
    disturbed: bool = False
    """A failure lengthened the drain: it gives no sample (Karn's rule)."""
    migrated: int = 0

    @staticmethod
    def begin(request: SwitchRequested, old: Pipeline, now_s: float, drain_limit_s: float) -> Draining:
        """Hand-over. Seamless: the new composition is fed so early that its first result comes when the old one's last
        is expected, and not earlier, so that both do not load the cores at once. Drain: when the old one is empty, or
        after the estimated time; what is left then runs on in the old one beside the new one, and leaves in order."""
        estimate_s, wait_s = request.drain_estimate_s, request.wait_s
        if request.style is SwitchStyle.SEAMLESS:
            feed_s, wait_s = max(0.0, request.drain_mean_s - request.first_result_s), 0.0
        else:
            feed_s = wait_s or math.inf
        return Draining(
            request,
            old,
            handed_over_s=now_s,
            feed_at_s=now_s + feed_s,
            held_until_s=now_s + wait_s,
            overdue_at_s=now_s + estimate_s if estimate_s > 0 else math.inf,
            limit_at_s=now_s + max(drain_limit_s, 8 * estimate_s),
            estimate_s=estimate_s,
            had_items=old.in_flight > 0,
        )

    @property
    def from_name(self) -> str:
        return self.pipeline.composition.name

    def may_feed(self, now_s: float) -> bool:
        """Return whether the new composition may take items now."""
        return now_s >= self.feed_at_s

    def back_off(self) -> None:
        """The drain outlived its estimate: double it for this drain (Jacobson/Karels' exponential back-off)."""
        self.overdue = True
        self.estimate_s *= 2
        self.overdue_at_s = self.handed_over_s + self.estimate_s

    def pass_limit(self, now_s: float) -> None:
        """The drain is given up: what is left moves to the new composition, which is fed from now on."""
        self.pipeline.migrating = True
        self.limit_at_s = self.overdue_at_s = math.inf
        self.feed_at_s = now_s

    def next_deadline_s(self, now_s: float) -> float:
        feed_s = self.feed_at_s if self.feed_at_s > now_s else math.inf
        return min(feed_s, self.overdue_at_s, self.limit_at_s)

    def ended(self, now_s: float, error: str | None) -> SwitchEnded:
        clean = self.had_items and not self.disturbed and not self.migrated and error is None
        emptied_s = now_s if self.emptied_s is None else self.emptied_s
        took_s = emptied_s - self.handed_over_s if clean else None
        names = self.from_name, self.request.composition.name
        return SwitchEnded(now_s, *names, self.request.style, took_s, self.overdue, self.migrated, error)


Phase = Preparing | Resizing | Draining
