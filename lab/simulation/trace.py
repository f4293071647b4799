"""The trace of a simulated run: its ticks, its decisions and its items."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from compositions.model import Composition
from control.bundles.bundle_size import SizeRuns
from control.decisions import Decision, NoChange, State
from control.journal import Journal
from control.manager import TickResult
from profiler.slo import Slo, SloStatus
from profiler.snapshot import Snapshot
from runtime.dispatch.outcomes import Delivered


@dataclass(frozen=True, slots=True)
class Moment:
    """One tick of the manager."""

    at_s: float
    state: State
    composition: str
    workers: int
    slo_status: SloStatus
    meets: bool
    input_rate_per_s: float | None
    throughput_per_s: float | None
    latency_s: float | None
    said: Decision | NoChange


@dataclass(frozen=True, slots=True)
class Left:
    """A delivered item. Times in seconds."""

    at_s: float
    serial: int
    arrived_s: float
    since_s: float
    """Time from which on a user waited for it."""
    started_s: float
    composition: str

    @property
    def latency_s(self) -> float:
        """Return the time that a user waited."""
        return self.at_s - self.since_s


@dataclass(slots=True)
class Trace:
    """The events of a run: every tick, every decision and switch, and the fate of every item."""

    journal: Journal
    sizes: SizeRuns = field(default_factory=SizeRuns)
    """Sizes of bundles."""
    moments: list[Moment] = field(default_factory=list)
    delivered: list[Left] = field(default_factory=list)
    """Items in the order of delivery."""
    accepted: int = 0
    offered: int | None = None
    """Number of items that were due or came, read or not; None if they are not counted."""
    quiet_since_s: float = 0.0
    """Time since which the manager has decided nothing but "no change"."""

    @property
    def decisions(self) -> list[Decision]:
        return list(self.journal.decisions)

    @property
    def final(self) -> Moment:
        return self.moments[-1]

    @property
    def noted_s(self) -> float:
        """Return the time of the latest tick."""
        return self.moments[-1].at_s if self.moments else -math.inf

    @property
    def in_order(self) -> bool:
        """Return whether every item was delivered once, in the order of arrival."""
        return [item.serial for item in self.delivered] == list(range(len(self.delivered)))

    def between(self, start_s: float, end_s: float) -> list[Moment]:
        return [moment for moment in self.moments if start_s <= moment.at_s < end_s]

    def switches_between(self, start_s: float, end_s: float) -> int:
        """Return the number of switches that ended without an error."""
        ended = [record.ended for record in self.journal.switches]
        return sum(e is not None and e.error is None and start_s <= e.at_s < end_s for e in ended)

    def met_share(self, start_s: float, end_s: float) -> float:
        """Return the share of the ticks with a verdict at which the SLO was met."""
        known = [m.slo_status for m in self.between(start_s, end_s) if m.slo_status is not SloStatus.UNKNOWN]
        return sum(status is SloStatus.MET for status in known) / len(known) if known else 0.0

    def take(self, out: Delivered) -> None:
        """Record delivered items."""
        for each in zip(out.serials, out.arrived_s, out.since_s, strict=True):
            self.delivered.append(Left(out.at_s, *each, out.started_s, out.composition))

    def note(self, snapshot: Snapshot, result: TickResult, active: Composition, slo: Slo | None) -> None:
        """Record a tick, which is later than ``noted_s``."""
        if isinstance(result.decision, Decision) or result.state is not State.STABLE:
            self.quiet_since_s = snapshot.now_s
        latency = snapshot.latency
        moment = Moment(
            at_s=snapshot.now_s,
            state=result.state,
            composition=active.name,
            workers=active.workers,
            slo_status=result.slo_status,
            meets=result.slo_status is SloStatus.MET,
            input_rate_per_s=snapshot.input_rate_per_s,
            throughput_per_s=snapshot.throughput_per_s,
            latency_s=latency.at(slo.quantile if slo else None) if latency else None,
            said=result.decision,
        )
        self.moments.append(moment)
