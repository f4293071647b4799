"""What a run comes to: items, switches, compositions used, how long the SLO was met."""

from __future__ import annotations

from typing import TYPE_CHECKING

from control.manager import TickResult
from profiler.slo import SloStatus, Verdict
from profiler.slo_hits import SloHits
from profiler.snapshot import Snapshot
from service.bodies.base import ms, rounded
from service.bodies.results import CheckedItems, Summary

if TYPE_CHECKING:
    from service.running.building.run import Run


class RunningSummary:
    """Kept up to date once a tick."""

    def __init__(self) -> None:
        self._hits = SloHits()
        self._used: list[str] = []
        self._first_s: float | None = None
        self._last: Snapshot | None = None

    @property
    def slo_met_share(self) -> float | None:
        """Share of the seconds with a verdict in which the SLO was met."""
        return rounded(self._hits.time_share)

    def note(self, snapshot: Snapshot, result: TickResult) -> bool:
        """Takes the last tick; False when it was taken before."""
        if snapshot is self._last:
            return False
        self._last = snapshot
        self._first_s = snapshot.now_s if self._first_s is None else self._first_s
        if snapshot.composition not in self._used:
            self._used.append(snapshot.composition)
        met = SloStatus.VIOLATED if result.slo_status is SloStatus.INFEASIBLE else result.slo_status
        self._hits.add_second(snapshot.now_s, Verdict(met, "as of the tick"))
        return True

    def view(self, run: Run) -> Summary:
        view, journal, sink = run.loop.engine.view(), run.loop.journal, run.sink
        last = self._last
        demand = run.intake.demand()
        elapsed_s = last.now_s - self._first_s if last and self._first_s is not None else None
        return Summary(
            app=run.checked.spec.app,
            run=run.checked.spec.run,
            elapsed_s=rounded(elapsed_s),
            items=CheckedItems(lost=sink.lost, misordered=sink.misordered, **dict(run.items)),
            composition=view.composition.name,
            compositions_used=list(self._used),
            bundle_sizes=list(run.bundling.sizes),
            switches=journal.switch_count,
            decisions=len(journal.decisions),
            settle_s=[round(decision.duration_s, 3) for decision in journal.decisions],
            throughput_per_s=rounded(_throughput_per_s(run)),
            latency_ms=ms(last.latency.mean_s) if last and last.latency else None,
            offered=demand.offered,
            admitted=demand.admitted,
            missed=demand.missed,
            lag_s=rounded(demand.lag_s),
            slo_met_share=self.slo_met_share,
            slo_status=run.loop.result.slo_status if run.loop.result else None,
            workers=view.composition.workers,
            first_error=sink.first_error,
            unwritten=sink.unwritten,
        )


def _throughput_per_s(run: Run) -> float | None:
    """Without the start, and without what came after the last result."""
    began_s, last_s = run.intake.began_s, run.sink.last_s
    if began_s is None or last_s is None or last_s <= began_s:
        return None
    return run.items.delivered / (last_s - began_s)
