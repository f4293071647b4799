"""The parts of a run, once it is built."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from compositions.model import Composition
from datapipe.sources.sources import Elsewhere
from service.runner.bundling import Bundling
from service.runner.loop import ControlLoop
from service.runner.rpc.window import Window
from service.runner.validation.checked import CheckedSpec
from service.runner.wiring.checkpointer import Checkpointer
from service.runner.wiring.intake import Intake
from service.runner.wiring.sink import ResultSink
from service.runner.wiring.sink_writer import SinkWriter
from service.schemas.figures import Budget, Budgets, Items
from service.schemas.spec import PlannedLoad


@dataclass(slots=True)
class Run:
    """Owned by the loop's thread."""

    checked: CheckedSpec
    intake: Intake
    bundling: Bundling
    sink: ResultSink
    loop: ControlLoop
    checkpointer: Checkpointer
    sink_writer: SinkWriter | None
    """To where results go for good, if that is no matter of Spark's."""
    wake: Callable[[], None]
    """Ends a wait of the loop; from any thread."""
    compositions: tuple[Composition, ...]
    """Those that can be chosen."""
    announced: tuple[PlannedLoad, ...]
    """Loads that are to come."""

    def feed(self) -> None:
        self.intake.feed(lambda: self.sink.has_room and self.checkpointer.has_room)

    def step(self, until_s: float) -> None:
        """Take one turn of the loop, then store what is to be stored."""
        engine = self.loop.engine
        self.loop.step(min(until_s, self.checkpointer.wake_at_s))
        self.checkpointer.turn(engine.now_s, engine.checkpoint)

    @property
    def over(self) -> bool:
        """The input has ended and every item is out, and stored where that is wanted."""
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
        """Reasons why nothing can be processed, read or stored now, by cause: workers, source, journal, sink."""
        source = self.checked.source
        faults = {
            "workers": self._unstarted,
            "source": source.fault if isinstance(source, Elsewhere) else None,
            "journal": self.checkpointer.fault,
            "sink": self.sink_writer and self.sink_writer.fault,
        }
        return {part: fault for part, fault in faults.items() if fault}

    @property
    def _unstarted(self) -> str | None:
        """The reason why there is no worker at all."""
        broken = self.loop.failures.start_failure
        if broken is None or self.loop.engine.view().workers:
            return None
        return f"no worker is ready, and starts are tried again: {broken.reason}"

    @property
    def undelivered(self) -> range:
        """Serial numbers of the items that were accepted and are not out."""
        return range(self.sink.buffer.until, self.accepted)

    @property
    def accepted(self) -> int:
        """Items that were given a serial number."""
        return max(self.loop.engine.view().accepted, self.checked.pushes.accepted)

    @property
    def window(self) -> Window:
        """The results that can still be read."""
        kept = self.sink.buffer
        return Window(self.checked.spec.origin.run, kept, kept.until, self.accepted, kept.since)

    def close(self) -> None:
        """Each part is closed, whatever the others raise."""
        with ExitStack() as closing:
            closing.callback(self.checkpointer.close)
            closing.callback(self.sink.close)
            closing.callback(self.loop.engine.close)
            closing.callback(self.intake.stop, drain=False)
