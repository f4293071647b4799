"""What the manager said and what came of it: decisions, runs of "no change", switches. Bounded, in order."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field, replace

from compositions.model import TransitionKind
from control.decisions import Decision, Handover, NoChange
from runtime.dispatch.outcomes import SwitchEnded


@dataclass(slots=True)
class NoChangeRun:
    """The same reason for doing nothing between two decisions, kept as one entry, also where others came in between:
    two that take turns are two entries, not one a turn."""

    reason: str
    first_at_s: float
    last_at_s: float
    count: int = 1


@dataclass(slots=True)
class SwitchRecord:
    """A switch or a resize, what was expected of it, and how it went. Seconds."""

    drain_mean_s: float | None
    """srtt when it began."""
    drain_estimate_s: float | None
    """srtt + 4 rttvar when it began."""
    ended: SwitchEnded | None = None
    gap_s: float | None = None
    """The old composition's last delivery to the new one's first; None until that came."""
    longest_gap_s: float | None = None
    """The longest between two deliveries, from the request until the new composition's first."""


@dataclass(slots=True)
class Journal:
    """Keeps the last ``KEPT`` of each kind."""

    KEPT = 1000
    decisions: deque[Decision] = field(default_factory=lambda: deque(maxlen=Journal.KEPT))
    no_changes: deque[NoChangeRun] = field(default_factory=lambda: deque(maxlen=Journal.KEPT))
    """Those that were said last come last."""
    switches: deque[SwitchRecord] = field(default_factory=lambda: deque(maxlen=Journal.KEPT))
    switch_count: int = 0
    """With the resizes."""
    resize_count: int = 0
    switch_total: int = 0
    """With those that failed."""
    _since_decision: dict[str, NoChangeRun] = field(default_factory=dict)
    """By kind of reason."""

    def record(self, said: Decision | NoChange) -> None:
        """A tick's answer; the same reason again only prolongs its run."""
        if isinstance(said, Decision):
            self.decisions.append(said)
            self._since_decision.clear()
        else:
            self._record_quiet(said)

    def _record_quiet(self, said: NoChange) -> None:
        known = self._since_decision.get(_kind(said.reason))
        if known is None:
            known = NoChangeRun(said.reason, said.at_s, said.at_s, 0)
            self._begin(known)
        elif known is not self.no_changes[-1]:
            self.no_changes.remove(known)
            self.no_changes.append(known)
        known.reason, known.last_at_s = said.reason, said.at_s
        known.count += 1

    def _begin(self, run: NoChangeRun) -> None:
        if len(self.no_changes) == self.KEPT:
            self._since_decision.pop(_kind(self.no_changes[0].reason), None)  # it is about to be dropped
        self._since_decision[_kind(run.reason)] = run
        self.no_changes.append(run)

    def record_hindsight(self, decision: Decision) -> None:
        """What came of an earlier decision."""
        for position, known in enumerate(self.decisions):
            if known.id == decision.id:
                self.decisions[position] = decision

    def record_switch(self, record: SwitchRecord, ended: SwitchEnded) -> None:
        record.ended = ended
        if ended.kind is TransitionKind.RESIZE:  # nothing was drained
            record.drain_mean_s = record.drain_estimate_s = None
            self.resize_count += ended.error is None
        self.switches.append(record)
        self.switch_count += ended.error is None
        self.switch_total += 1

    def with_switches(self, decision: Decision) -> Decision:
        """The decision with the figures of the switches it caused: the longest gap, the last drain."""
        since_s = decision.at_s - decision.duration_s
        caused = [record for record in self.switches if _ended_well(record, since_s, decision.at_s)]
        if not caused:
            return decision
        last = caused[-1]
        gaps = [record.gap_s for record in caused if record.gap_s is not None]
        actual_s = last.ended.drain_actual_s if last.ended else None
        return replace(decision, handover=Handover(max(gaps, default=None), last.drain_estimate_s, actual_s))


def _ended_well(record: SwitchRecord, from_s: float, until_s: float) -> bool:
    ended = record.ended
    return ended is not None and ended.error is None and from_s <= ended.at_s <= until_s


def _kind(reason: str) -> str:
    """A reason without its figures, and without what is foretold in brackets: those differ at every tick, and the run
    shows the last ones."""
    return re.sub(r"\d[\d,.]*", "#", re.sub(r" \([^()]*\)", "", reason))
