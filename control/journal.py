"""What the manager said and what came of it: decisions, runs of "no change", switches. Bounded, in order."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field, replace

from control.decisions import Decision, Handover, NoChange
from runtime.dispatch.outcomes import SwitchEnded


@dataclass(slots=True)
class NoChangeRun:
    """The same reason for doing nothing, tick after tick, kept as one entry."""

    reason: str
    first_at_s: float
    last_at_s: float
    count: int = 1


@dataclass(slots=True)
class SwitchRecord:
    """A switch, what was expected of it, and how it went. Seconds."""

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
    switches: deque[SwitchRecord] = field(default_factory=lambda: deque(maxlen=Journal.KEPT))
    switch_count: int = 0
    switch_total: int = 0
    """With those that failed."""

    def record(self, said: Decision | NoChange) -> None:
        """A tick's answer; the same reason again only prolongs its run."""
        if isinstance(said, Decision):
            self.decisions.append(said)
        elif self.no_changes and _kind(self.no_changes[-1].reason) == _kind(said.reason):
            self.no_changes[-1].reason = said.reason
            self.no_changes[-1].last_at_s = said.at_s
            self.no_changes[-1].count += 1
        else:
            self.no_changes.append(NoChangeRun(said.reason, said.at_s, said.at_s))

    def record_hindsight(self, decision: Decision) -> None:
        """What came of an earlier decision."""
        for position, known in enumerate(self.decisions):
            if known.id == decision.id:
                self.decisions[position] = decision

    def record_switch(self, record: SwitchRecord, ended: SwitchEnded) -> None:
        record.ended = ended
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
