"""What a run consists of, once it is built."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from apps.input.sources import Elsewhere
from compositions.model import Composition
from service.bodies.figures import Budget, Budgets, Items
from service.bodies.spec import Coming
from service.running.asking.window import Window
from service.running.building.intake import Intake
from service.running.building.keeper import Keeper
from service.running.building.outlet import Outlet
from service.running.building.sink import ResultSink
from service.running.bundling import Bundling
from service.running.checking.checked import CheckedSpec
from service.running.loop import ControlLoop


@dataclass(slots=True)
class Run:
    """Owned by the loop's thread."""

    checked: CheckedSpec
    intake: Intake
    bundling: Bundling
    sink: ResultSink
    loop: ControlLoop
    keeper: Keeper
    outlet: Outlet | None
    """To where results go for good, if that is no matter of Spark's."""
    wake: Callable[[], None]
    """Ends a wait of the loop; from any thread."""
    compositions: tuple[Composition, ...]
    """Those that can be chosen."""
    announced: tuple[Coming, ...]
    """Loads that are to come."""

    def feed(self) -> None:
        self.intake.feed(lambda: self.sink.has_room and self.keeper.has_room)

    def step(self, until_s: float) -> None:
        """One turn of the loop, and what is to be stored after it."""
        engine = self.loop.engine
        self.loop.step(min(until_s, self.keeper.wake_at_s))
        self.keeper.turn(engine.now_s, engine.checkpoint)

    @property
    def over(self) -> bool:
        """The input has ended and every item is out, and stored where that is wanted."""
        engine = self.loop.engine
        return self.intake.finished and engine.idle and self.keeper.idle and not engine.view().switching

    @property
    def items(self) -> Items:
        """A result that could not be written did not reach the sink: its item failed."""
        known, unwritten = Items.of(self.loop.engine.view()), self.sink.unwritten
        return known.model_copy(update={"delivered": known.delivered - unwritten, "failed": known.failed + unwritten})

    @property
    def budgets(self) -> Budgets:
        view, settings, kept = self.loop.engine.view(), self.checked.settings.dispatcher, self.sink.kept
        return Budgets(
            admission=Budget(used=view.queued_bytes, allowed=settings.buffer_bytes),
            started=Budget(used=view.started_bytes, allowed=settings.started_bytes),
            results=Budget(used=kept.size_bytes, allowed=kept.most_bytes),
        )

    @property
    def blocked(self) -> str | None:
        """Why nothing can be read now, or stored, in the journal or where results go for good."""
        source = self.checked.source
        unread = source.fault if isinstance(source, Elsewhere) else None
        return (
            "; ".join(each for each in (unread, self.keeper.fault, self.outlet and self.outlet.fault) if each) or None
        )

    @property
    def undelivered(self) -> range:
        """Serial numbers of the items that were accepted and are not out."""
        return range(self.sink.kept.until, self.accepted)

    @property
    def accepted(self) -> int:
        """Items that were given a serial number."""
        return max(self.loop.engine.view().accepted, self.checked.pushes.accepted)

    @property
    def window(self) -> Window:
        """The results that can still be read."""
        kept = self.sink.kept
        return Window(self.checked.spec.run, kept, kept.until, self.accepted, kept.since)

    def close(self) -> None:
        """Each part is closed, whatever the others raise."""
        with ExitStack() as closing:
            closing.callback(self.keeper.close)
            closing.callback(self.sink.close)
            closing.callback(self.loop.engine.close)
            closing.callback(self.intake.stop, drain=False)
