"""A switch under way is in one of two phases: *preparing* until its workers are there, then *draining* until the old
composition is empty. Times and figures only: :mod:`runtime.dispatch.transition` moves from one to the other."""

from __future__ import annotations

import math
from dataclasses import dataclass

from runtime.dispatch.events import SwitchRequested, SwitchStyle
from runtime.dispatch.outcomes import SwitchEnded
from runtime.dispatch.pipeline import Pipeline


@dataclass(slots=True)
class Preparing:
    """The old composition runs as before; workers for the new one are started."""

    request: SwitchRequested
    from_name: str
    limit_at_s: float

    def may_feed(self, now_s: float) -> bool:
        """The active composition is the old one: nothing has changed for it."""
        return True

    def next_deadline_s(self, now_s: float) -> float:
        return self.limit_at_s

    def ended(self, now_s: float, error: str | None) -> SwitchEnded:
        """It was refused, or failed before anything moved."""
        request = self.request
        return SwitchEnded(
            now_s, self.from_name, request.composition.name, request.style, requested_s=request.at_s, error=error
        )


@dataclass(slots=True)
class Draining:
    """The old composition, ``pipeline``, gets no more items; the new one is active."""

    request: SwitchRequested
    pipeline: Pipeline
    handed_over_s: float
    feed_at_s: float
    """From then on the new composition gets items, though the old one still has some."""
    overdue_at_s: float
    limit_at_s: float
    estimate_s: float
    had_items: bool
    overdue: bool = False
    disturbed: bool = False
    """A failure lengthened the drain: it gives no sample (Karn's rule)."""
    migrated: int = 0

    @staticmethod
    def begin(request: SwitchRequested, old: Pipeline, now_s: float, drain_limit_s: float) -> Draining:
        """Hand-over. Seamless: the new composition is fed so early that its first result comes when the old one's last
        is expected, and not earlier, so that both do not load the cores at once."""
        estimate_s, ahead_s = request.drain_estimate_s, max(0.0, request.drain_mean_s - request.first_result_s)
        return Draining(
            request,
            old,
            handed_over_s=now_s,
            feed_at_s=now_s + ahead_s if request.style is SwitchStyle.SEAMLESS else math.inf,
            overdue_at_s=now_s + estimate_s if estimate_s > 0 else math.inf,
            limit_at_s=now_s + max(drain_limit_s, 8 * estimate_s),
            estimate_s=estimate_s,
            had_items=old.in_flight > 0,
        )

    @property
    def from_name(self) -> str:
        return self.pipeline.composition.name

    def may_feed(self, now_s: float) -> bool:
        """Whether the new composition may take items now."""
        return self.pipeline.in_flight == 0 or now_s >= self.feed_at_s

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
        return SwitchEnded(
            at_s=now_s,
            from_name=self.from_name,
            to_name=self.request.composition.name,
            style=self.request.style,
            requested_s=self.request.at_s,
            handed_over_s=self.handed_over_s,
            drain_actual_s=now_s - self.handed_over_s if clean else None,
            overdue=self.overdue,
            migrated=self.migrated,
            error=error,
        )


Phase = Preparing | Draining
