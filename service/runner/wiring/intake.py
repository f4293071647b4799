"""The intake of a run: from the source's thread into the dispatcher."""

from __future__ import annotations

import math
from collections.abc import Callable

from apps.rates import Rate
from datapipe.sources.portions import Marks
from datapipe.sources.source_thread import SourceThread
from profiler.monitor import Monitor
from profiler.snapshot import Demand
from runtime.engine import Engine
from service.runner.bundling import Bundling

DEMAND_EVERY_S = 0.1
"""What was asked for of the source is counted this often."""


class Intake:
    """Feeds a run. But for ``failure``, which anyone may read, it belongs to the loop's thread.

    Reading begins when there are ``workers``: what was read before would have waited for them, and the first latencies
    would tell of the start and not of the composition; a run that goes on waits for one, which every group shares until
    the others are there. ``pushed``: how many items were accepted and not read yet.
    """

    def __init__(
        self,
        source: SourceThread,
        engine: Engine,
        monitor: Monitor,
        bundling: Bundling,
        workers: int,
        pushed: Callable[[], int],
    ) -> None:
        self._source, self._engine, self._monitor, self._bundling = source, engine, monitor, bundling
        self._workers, self._pushed = workers, pushed
        self.admitted: Callable[[int, Marks | None], None] = lambda first, marks: None
        """Is told of items that came in: the serial number of the first, and where the source goes on behind each."""
        self._stopped = False
        self.reading = False
        self.began_s: float | None = None
        """When reading began, in seconds of the engine's clock."""
        self._counted_s = -math.inf

    def feed(self, sink_has_room: Callable[[], bool]) -> None:
        """Moves what the source has handed over into the dispatcher, as far as there is room."""
        if not self.reading and not self._begin():
            return
        engine, monitor, source = self._engine, self._monitor, self._source
        monitor.set_offered_rate(engine.now_s, source.offered_per_s(engine.now_s))
        self._count_demand(engine.now_s)
        at_once = None if engine.sheds else 1
        while self._has_room() and sink_has_room() and (taken := source.take(at_once)):
            for each in taken:
                monitor.record_arrivals(each.arrived_s)
                first = engine.admit(each.payload, each.arrived_s, each.due_s, each.error)
                self.admitted(first, each.marks)
                self._bundling.admitted(first, len(each.arrived_s), engine.now_s)
        full = not (self._has_room() and sink_has_room())
        monitor.record_held_back(engine.now_s, held=full and source.held_back)  # one that gathers has room itself
        source.set_patient(engine.sheds and engine.waits)

    def _has_room(self) -> bool:
        """Where items travel together, those that come while others wait are gathered: they are the next bundle."""
        engine = self._engine
        return engine.has_room and (engine.sheds or not engine.waits or self._source.batching.items == 1)

    def _count_demand(self, now_s: float) -> None:
        """Often enough for the manager, which looks four times a second."""
        if now_s - self._counted_s < DEMAND_EVERY_S:
            return
        self._counted_s = now_s
        self._monitor.record_demand(now_s, self.demand())

    def demand(self) -> Demand:
        """Return the load that the source offered so far, and what became of it."""
        offer = self._source.offer()
        return self._bundling.tell(Demand(offer.slots, self._engine.view().accepted, offer.missed, offer.lag_s))

    def _begin(self) -> bool:
        self.reading = len(self._engine.view().workers) >= self._workers
        if self.reading:
            self.began_s = self._engine.now_s
            self._source.start()
        return self.reading

    def set_rate(self, rate: Rate | None) -> None:
        """Counted from now; None: unpaced."""
        self._source.set_pattern(rate)

    def stop(self, *, drain: bool) -> None:
        """No more input; with ``drain`` what was read or pushed before is still fed."""
        self._stopped = True
        self._source.stop(drain=drain)

    @property
    def finished(self) -> bool:
        """Nothing more will come. Where nothing was read or pushed, no worker is waited for."""
        return self._source.finished if self.reading else self._stopped and not self._pushed()

    @property
    def failure(self) -> str | None:
        """Why the source ended early."""
        return self._source.error
