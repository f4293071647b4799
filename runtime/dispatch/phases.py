"""Phases of a switch: *preparing* until its workers are ready, then *draining* until the old composition is empty. A
resize has one phase, *resizing*, until its workers are ready.

The classes hold times and counts; :mod:`runtime.dispatch.transition` moves from one phase to the next."""

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
    """The phase in which the new composition's workers start; no item has moved."""

    kind: ClassVar[TransitionKind]

    request: SwitchRequested
    from_name: str
    limit_at_s: float

    def may_feed(self, now_s: float) -> bool:
        """Return True: the old composition is still active and takes items as before."""
        return True

    def next_deadline_s(self, now_s: float) -> float:
        return self.limit_at_s

    def ended(self, now_s: float, error: str | None) -> SwitchEnded:
        """Return the outcome of a request that was refused, failed before an item moved, or was a finished resize."""
        asked = self.request
        return SwitchEnded(now_s, self.from_name, asked.composition.name, asked.style, error=error, kind=self.kind)


@dataclass(slots=True)
class Preparing(Awaiting):
    """Waiting for the workers of a switch; the old composition runs as before."""

    kind = TransitionKind.SWITCH


@dataclass(slots=True)
class Resizing(Awaiting):
    """Waiting for the workers of a resize. The groups already have their new replica numbers: present workers are bound
    at once, others when they join."""

    kind = TransitionKind.RESIZE


@dataclass(slots=True)
class Draining:
    """The old composition, ``pipeline``, gets no more items; the new one is active."""

    request: SwitchRequested
    pipeline: Pipeline
    handed_over_s: float
    feed_at_s: float
    """Time from which the new composition gets items, even if the old one still has some."""
    held_until_s: float
    """Time before which the drain does not end, even if the old composition is empty."""
    overdue_at_s: float
    limit_at_s: float
    estimate_s: float
    had_items: bool
    overdue: bool = False
    emptied_s: float | None = None
    """Time at which the old composition became empty; None: it still has items."""
    disturbed: bool = False
    """True if a failure lengthened the drain, which then gives no sample for estimates (Karn's rule)."""
    migrated: int = 0

    @staticmethod
    def begin(request: SwitchRequested, old: Pipeline, now_s: float, drain_limit_s: float) -> Draining:
        """Return the drain that follows the hand-over. With style ``seamless``, the new composition's first item is
        timed so that its result comes when the old one's last is expected; earlier, both would load the cores. With
        style ``drain``, the new one starts when the old one is empty, or after ``wait_s`` beside it."""
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
        """Double the estimate of this drain, which exceeded it (Jacobson/Karels' exponential back-off)."""
        self.overdue = True
        self.estimate_s *= 2
        self.overdue_at_s = self.handed_over_s + self.estimate_s

    def pass_limit(self, now_s: float) -> None:
        """Give up the drain: the remaining items move to the new composition, which takes new items from now on."""
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
