"""The manager's journal, of bounded size: decisions and outcomes, reasons for no change, switches and output gaps."""

import re
from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np

from compositions.model import TransitionKind
from control.decisions import Decision, Handover, NoChange
from runtime.dispatch.outcomes import SwitchEnded


@dataclass(slots=True)
class NoChangeRun:
    """One entry for all occurrences of a reason for no change between two decisions, even among other reasons."""

    reason: str
    first_at_s: float
    last_at_s: float
    count: int = 1


@dataclass(slots=True)
class SwitchRecord:
    """A switch or a resize: expected drain time, result and output gaps. Times in seconds."""

    drain_mean_s: float | None
    """Smoothed drain time (srtt) when it began."""
    drain_estimate_s: float | None
    """srtt + 4 rttvar when it began."""
    ended: SwitchEnded | None = None
    gap_s: float | None = None
    """Time from the old composition's last delivery to the new one's first; None until then."""
    longest_gap_s: float | None = None
    """Longest time between two deliveries, from the request to the new composition's first delivery."""


@dataclass(slots=True)
class Journal:
    """Keeps the last ``KEPT`` entries of each kind."""

    KEPT = 1000
    decisions: deque[Decision] = field(default_factory=lambda: deque(maxlen=Journal.KEPT))
    no_changes: deque[NoChangeRun] = field(default_factory=lambda: deque(maxlen=Journal.KEPT))
    """Reasons for no change, in the order of their latest occurrence."""
    switches: deque[SwitchRecord] = field(default_factory=lambda: deque(maxlen=Journal.KEPT))
    switch_count: int = 0
    """Number of successful switches and resizes."""
    resize_count: int = 0
    switch_total: int = 0
    """Number of all switches and resizes, failed ones included."""
    _since_decision: dict[str, NoChangeRun] = field(default_factory=dict)
    """Entries since the last decision, by reason without its numbers."""

    def record(self, said: Decision | NoChange) -> None:
        """Record a tick's result; a repeated reason for no change extends its entry."""
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
        """Replace an earlier decision by the same one with its outcome."""
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
        """Return the decision with the longest gap and the last drain time of the switches that it caused."""
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
    """Return a reason without its numbers and bracketed parts, which differ at every tick."""
    return re.sub(r"\d[\d,.]*", "#", re.sub(r" \([^()]*\)", "", reason))


class OutputGaps:
    """Measures times between deliveries. Gaps belong to a switch from its request to the new composition's first
    delivery; all others are steady gaps."""

    KEPT = 4096

    def __init__(self) -> None:
        self._steady: deque[float] = deque(maxlen=self.KEPT)
        self._switch: SwitchRecord | None = None
        self._last: tuple[float, str] | None = None

    def reset(self) -> None:
        """Forget the steady gaps so far."""
        self._steady.clear()

    def switch_begins(self, record: SwitchRecord) -> None:
        self._switch = record

    def switch_ended(self) -> None:
        """End the measurement of a switch; after a failed one, no first delivery has to be awaited."""
        switch = self._switch
        if switch is not None and switch.ended is not None:
            self._close(over=switch.ended.error is not None)

    def delivered(self, at_s: float, composition: str) -> None:
        last, self._last = self._last, (at_s, composition)
        if last is None:
            return
        gap_s, changed = at_s - last[0], composition != last[1]
        if self._switch is None:
            self._steady.append(gap_s)
            return
        self._switch.longest_gap_s = max(self._switch.longest_gap_s or 0.0, gap_s)
        if changed:
            self._switch.gap_s = gap_s
        self._close(over=self._switch.ended is not None)

    def steady_s(self, percentile: float) -> float | None:
        """Return a percentile of the steady gaps, in seconds; None before the first."""
        return float(np.percentile(list(self._steady), percentile)) if self._steady else None

    def _close(self, over: bool) -> None:
        if self._switch is not None and over and (self._switch.gap_s is not None or self._failed(self._switch)):
            self._switch = None

    @staticmethod
    def _failed(switch: SwitchRecord) -> bool:
        return switch.ended is not None and switch.ended.error is not None
