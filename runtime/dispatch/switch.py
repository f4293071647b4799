"""A switch under way: its phases and its times. The dispatcher moves it on; nothing here acts."""

from __future__ import annotations

import math
from dataclasses import dataclass

from runtime.dispatch.events import SwitchEnded, SwitchRequested, SwitchStyle
from runtime.dispatch.pipeline import Pipeline


@dataclass(slots=True)
class Switch:
    """*Prepare* until the workers are there (``draining`` is None), then *drain* until the old composition is empty."""

    request: SwitchRequested
    from_name: str
    prepare_by_s: float
    draining: Pipeline | None = None
    handed_over_s: float = math.inf
    feed_at_s: float = math.inf
    overdue_at_s: float = math.inf
    limit_at_s: float = math.inf
    estimate_s: float = 0.0
    had_items: bool = False
    overdue: bool = False
    disturbed: bool = False
    """A failure lengthened the drain: it gives no sample (Karn's rule)."""
    migrated: int = 0

    def hand_over(self, now_s: float, old: Pipeline, drain_limit_s: float) -> None:
        """The old composition gets no more items. Seamless: the new one is fed so early that its first result comes
        when the old one's last is expected, and not earlier, so that both do not load the cores at once."""
        request = self.request
        self.draining = old
        self.had_items = old.in_flight > 0
        self.handed_over_s = now_s
        if request.style is SwitchStyle.SEAMLESS:
            self.feed_at_s = now_s + max(0.0, request.drain_mean_s - request.first_result_s)
        self.estimate_s = request.drain_estimate_s
        self.overdue_at_s = now_s + request.drain_estimate_s if request.drain_estimate_s > 0 else math.inf
        self.limit_at_s = now_s + max(drain_limit_s, 8 * request.drain_estimate_s)

    def back_off(self) -> None:
        """The drain outlived its estimate: double it for this drain (Jacobson/Karels' exponential back-off)."""
        self.overdue = True
        self.estimate_s *= 2
        self.overdue_at_s = self.handed_over_s + self.estimate_s

    def may_feed(self, now_s: float) -> bool:
        """Whether the new composition may take items now."""
        return self.draining is None or self.draining.in_flight == 0 or now_s >= self.feed_at_s

    def next_deadline_s(self, now_s: float) -> float:
        if self.draining is None:
            return self.prepare_by_s
        feed_s = self.feed_at_s if self.feed_at_s > now_s else math.inf
        return min(feed_s, self.overdue_at_s, self.limit_at_s)

    def ended(self, now_s: float, error: str | None = None) -> SwitchEnded:
        clean = self.had_items and not self.disturbed and not self.migrated and error is None
        return SwitchEnded(
            at_s=now_s,
            from_name=self.from_name,
            to_name=self.request.composition.name,
            style=self.request.style,
            requested_s=self.request.at_s,
            handed_over_s=None if math.isinf(self.handed_over_s) else self.handed_over_s,
            drain_actual_s=now_s - self.handed_over_s if clean else None,
            overdue=self.overdue,
            migrated=self.migrated,
            error=error,
        )
