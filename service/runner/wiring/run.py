"""The parts of a run, and its intake from the source's thread into the dispatcher."""

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from apps.rates import Rate
from compositions.model import Composition
from datapipe.sources.portions import Marks
from datapipe.sources.source_thread import SourceThread
from datapipe.sources.sources import Elsewhere
from profiler.monitor import Monitor
from profiler.snapshot import Demand
from runtime.engine import Engine
from service.runner.bundling import Bundling
from service.runner.loop import ControlLoop
from service.runner.rpc.window import Window
from service.runner.validation.checked import CheckedSpec
from service.runner.wiring.checkpointer import Checkpointer
from service.runner.wiring.sink import ResultSink, SinkWriter
from service.schemas.figures import Budget, Budgets, Items
from service.schemas.spec import PlannedLoad

Count = Callable[[], int]
DEMAND_EVERY_S = 0.1
"""Interval at which the source's demand is counted, in seconds."""


class Intake:
    """The intake of a run. It belongs to the loop's thread, except ``failure``, which any thread may read.

    Reading begins when there are ``workers``, so that the first latencies do not contain the start. A run that
    continues, or some of whose workers cannot start, waits for one worker only. ``pushed``: items not read yet.
    """

    def __init__(
        self, source: SourceThread, engine: Engine, monitor: Monitor, bundling: Bundling, workers: Count, pushed: Count
    ) -> None:
        self._source, self._engine, self._monitor, self._bundling = source, engine, monitor, bundling
        self._workers, self._pushed = workers, pushed
        self.admitted: Callable[[int, Marks | None], None] = lambda first, marks: None
        """Called when items were admitted, with the first serial number and the source's position after each item."""
        self._stopped = False
        self.reading = False
        self.began_s: float | None = None
        """Time when reading began, in seconds of the engine's clock."""
        self._counted_s = -math.inf

    def feed(self, sink_has_room: Callable[[], bool]) -> None:
        """Move items from the source to the dispatcher, as far as there is room."""
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
        source.set_patient(engine.sheds and engine.waits)

    def _has_room(self) -> bool:
        """Return whether there is room; items that come while a bundle waits are gathered into the next one."""
        engine = self._engine
        return engine.has_room and (engine.sheds or not engine.waits or self._source.batching.items == 1)

    def _count_demand(self, now_s: float) -> None:
        """Count the demand, often enough for the manager, which reads it four times a second."""
        if now_s - self._counted_s < DEMAND_EVERY_S:
            return
        self._counted_s = now_s
        self._monitor.record_demand(now_s, self.demand())

    def demand(self) -> Demand:
        """Return the load that the source has offered so far, and its outcome."""
        offer = self._source.offer()
        return self._bundling.tell(Demand(offer.slots, self._engine.view().accepted, offer.missed, offer.lag_s))

    def _begin(self) -> bool:
        self.reading = len(self._engine.view().workers) >= self._workers()
        if self.reading:
            self.began_s = self._engine.now_s
            self._source.start()
        return self.reading

    def set_rate(self, rate: Rate | None) -> None:
        """Set the rate, counted from now; None: unpaced."""
        self._source.set_pattern(rate)

    def stop(self, *, drain: bool) -> None:
        """End the input; with ``drain``, items that were read or pushed before are still fed."""
        self._stopped = True
        self._source.stop(drain=drain)

    @property
    def finished(self) -> bool:
        """Return whether no more items will come. If none was read or pushed, no worker is awaited."""
        return self._source.finished if self.reading else self._stopped and not self._pushed()

    @property
    def failure(self) -> str | None:
        """Return the reason why the source ended early, if it did."""
        return self._source.error


@dataclass(slots=True)
class Run:
    """The parts of a run; owned by the loop's thread."""

    checked: CheckedSpec
    intake: Intake
    bundling: Bundling
    sink: ResultSink
    loop: ControlLoop
    checkpointer: Checkpointer
    sink_writer: SinkWriter | None
    """The writer of the sink; None without a sink, or if Spark writes."""
    wake: Callable[[], None]
    """Function that ends a wait of the loop; any thread may call it."""
    compositions: tuple[Composition, ...]
    announced: tuple[PlannedLoad, ...]

    def feed(self) -> None:
        self.intake.feed(lambda: self.sink.has_room and self.checkpointer.has_room)

    def step(self, until_s: float) -> None:
        """Take one turn of the loop, then store what is due."""
        engine = self.loop.engine
        self.loop.step(min(until_s, self.checkpointer.wake_at_s))
        self.checkpointer.turn(engine.now_s, engine.checkpoint)

    @property
    def over(self) -> bool:
        """Return whether the input has ended and every item is delivered and, in a durable run, stored."""
        engine = self.loop.engine
        return self.intake.finished and engine.idle and self.checkpointer.idle and not engine.view().switching

    @property
    def items(self) -> Items:
        return Items.of(self.loop.engine.view(), self.sink.unwritten)

    @property
    def budgets(self) -> Budgets:
        view, settings, kept = self.loop.engine.view(), self.checked.settings.dispatcher, self.sink.buffer
        return Budgets(
            admission=Budget(used=view.queued_bytes, allowed=settings.buffer_bytes),
            started=Budget(used=view.started_bytes, allowed=settings.started_bytes),
            results=Budget(used=kept.size_bytes, allowed=kept.most_bytes),
        )

    @property
    def blocked(self) -> dict[str, str]:
        """Return reasons why no item can be processed, read or stored now, by cause: workers, source, journal, sink."""
        source, stored = self.checked.source, self.checked.stored
        faults = {
            "workers": self._unstarted,
            "source": source.fault if isinstance(source, Elsewhere) else None,
            "journal": stored and stored.fault,
            "sink": self.sink_writer and self.sink_writer.fault,
        }
        return {part: fault for part, fault in faults.items() if fault}

    @property
    def _unstarted(self) -> str | None:
        """Return the reason why a group of the active composition has no worker."""
        broken, view = self.loop.failures.start_failure, self.loop.engine.view()
        if broken is None or not view.unserved:
            return None
        lacking = f" for {', '.join(view.unserved)}" if view.workers else ""
        return f"no worker is ready{lacking}, and starts are retried: {broken.reason}"

    @property
    def failed(self) -> str | None:
        """Return the reason why the run cannot continue, if so."""
        loop, stored = self.loop, self.checked.stored
        why = loop.failures.given_up(loop.engine.now_s, kept_up=self.checked.spec.origin.kept_up)
        if why is not None and loop.engine.view().unserved:
            return f"workers cannot start: {why}"
        return self.sink.failed or (stored.failed if stored else None)

    @property
    def undelivered(self) -> range:
        """Return the serial numbers of accepted items that are not delivered."""
        return range(self.sink.buffer.until, self.accepted)

    @property
    def accepted(self) -> int:
        """Return the number of items with a serial number."""
        return max(self.loop.engine.view().accepted, self.checked.pushes.accepted)

    @property
    def window(self) -> Window:
        """Return the results that can still be read."""
        kept = self.sink.buffer
        return Window(self.checked.spec.origin.run, kept, kept.until, self.accepted, kept.since)

    def close(self) -> None:
        """Close each part, even if closing another one raises."""
        with ExitStack() as closing:
            closing.callback(self.checkpointer.close)
            closing.callback(self.sink.close)
            closing.callback(self.loop.engine.close)
            closing.callback(self.intake.stop, drain=False)
