"""What came of a decision: its prediction against what was measured once its window is full."""

from __future__ import annotations

from dataclasses import replace

from compositions.wording import figure
from control.assess import Assessment
from control.decisions import Decision
from profiler.snapshot import Snapshot


class Hindsight:
    """Waits for the latest decision's window to fill, compares, and hands the decision out with its outcome."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._awaited: Decision | None = None
        self._compared: list[Decision] = []

    def expect(self, decision: Decision) -> None:
        """``decision`` was carried out; an earlier one that still waits is given up."""
        self._awaited = decision

    def compare(self, snapshot: Snapshot, seen: Assessment) -> Decision | None:
        """The decision whose outcome is known now, if there is one."""
        decision = self._awaited
        if decision is None or seen.meets is None or snapshot.now_s - decision.at_s < self._window_s:
            return None
        self._awaited = None
        self._compared.append(replace(decision, outcome=outcome_text(decision, seen)))
        return decision

    def taken(self) -> tuple[Decision, ...]:
        """Those compared since the last call."""
        compared, self._compared = tuple(self._compared), []
        return compared


def outcome_text(decision: Decision, seen: Assessment) -> str:
    """The prediction of ``decision`` against what was ``seen`` once the window was full."""
    chosen = next((c for c in decision.candidates if c.name == decision.to_name), None)
    measured = f"measured {_rate(seen.throughput_per_s)} and {_milliseconds(seen.latency_s)}"
    if chosen is None or chosen.predicted_throughput_per_s is None:
        return f"{measured}; {seen.reason}"
    predicted = f"{_rate(chosen.predicted_throughput_per_s)} and {_milliseconds(chosen.predicted_latency_s)}"
    return f"predicted up to {predicted}, {measured}; {seen.reason}"


def _rate(value: float | None) -> str:
    return "an unknown rate" if value is None else f"{figure(value)} items/s"


def _milliseconds(value: float | None) -> str:
    return "an unknown latency" if value is None else f"{figure(value * 1e3)} ms"
