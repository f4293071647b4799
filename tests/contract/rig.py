"""Drives an engine on any pool: feeds numbers, collects outcomes, checks what must hold after every run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from apps.contract import App
from compositions.model import Composition, Stage
from compositions.notation import parse
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.events import SwitchStyle
from runtime.dispatch.outcomes import Delivered, Outcome, Shed, SwitchEnded
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.views import WorkerView
from runtime.engine import Engine
from runtime.pools.keyed import routing
from runtime.pools.port import Codec, WorkerPool


@dataclass
class Rig:
    """An engine on one pool. ``lose`` kills a worker; ``patience_s`` bounds every wait of a test."""

    stages: tuple[Stage, ...]
    pool: WorkerPool
    codec: Codec
    lose: Callable[[WorkerView], None]
    patience_s: float = 60.0
    settings: DispatcherSettings = field(default_factory=DispatcherSettings)
    outcomes: list[Outcome] = field(default_factory=list)
    app: App | None = None
    """One whose first stage is partitioned: its items are admitted with their routes."""

    def open(self, notation: str) -> Rig:
        self.engine = Engine(Dispatcher(self.stages, self.composition(notation), self.settings), self.pool)
        self.engine.start()
        return self

    def composition(self, notation: str) -> Composition:
        return parse(notation, self.stages, name=notation)

    def feed(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.run_until(lambda: self.engine.has_room)
            self.engine.admit(self._encoded([number]), (self.engine.now_s,))

    def feed_bundle(self, numbers: Sequence[int]) -> None:
        self.run_until(lambda: self.engine.has_room)
        self.engine.admit(self._encoded(list(numbers)), (self.engine.now_s,) * len(numbers))

    def _encoded(self, values: list[Any]) -> Any:
        return (routing(self.app, self.codec.encode) if self.app else self.codec.encode)(values)

    def run_until(self, done: Callable[[], bool]) -> None:
        deadline_s = self.engine.now_s + self.patience_s
        while not done():
            assert self.engine.now_s < deadline_s, f"not done after {self.patience_s} s: {self.engine.view()}"
            self.outcomes += self.engine.advance(min(deadline_s, self.engine.now_s + 0.05))

    def feed_until_handed_over(self, start: int, notation: str) -> int:
        """Keeps the old composition busy until the new one is active; returns the next number."""
        while self.engine.view().composition.name != notation:
            self.feed([start])
            start += 1
            self.outcomes += self.engine.advance(self.engine.now_s + 0.002)
        return start

    def finish(self) -> None:
        self.run_until(lambda: self.engine.idle)
        self.run_until(lambda: not self.engine.view().switching)

    def switch(self, notation: str, style: Any, **estimates: float) -> None:
        self.engine.switch(self.composition(notation), style, **estimates)

    def mix(self, chance: Random, rounds: int, shapes: Sequence[str], lose_every: int) -> int:
        """Bundles of several sizes, switches, resizes and kills. Returns how many items were fed."""
        fed = 0
        for round_ in range(rounds):
            for size in chance.choices([1, 2, 30, 64, 500], k=4):
                self.feed_bundle(range(fed, fed + size))
                fed += size
            self.switch(chance.choice(shapes), SwitchStyle.SEAMLESS)
            if round_ % lose_every == 1:
                self.run_until(lambda: bool(self.engine.view().workers))
                self.lose(chance.choice(self.engine.view().workers))
            self.run_until(lambda: not self.engine.view().switching)
        self.finish()
        self.check_order(fed)
        return fed

    def lose_a_busy_worker(self) -> None:
        def busy() -> list[WorkerView]:
            return [worker for worker in self.engine.view().workers if worker.outstanding]

        self.run_until(lambda: bool(busy()))
        lost = busy()[0]
        self.lose(lost)
        self.run_until(lambda: lost.worker not in [view.worker for view in self.engine.view().workers])

    @property
    def delivered(self) -> list[Delivered]:
        return [outcome for outcome in self.outcomes if isinstance(outcome, Delivered)]

    @property
    def values(self) -> list[Any]:
        return [
            value
            for out in self.delivered
            if out.error is None
            for value in self.codec.decode(out.payload, out.start, out.start + out.count)
        ]

    @property
    def by_serial(self) -> dict[int, list[Any]]:
        """The values of each item, where a stage makes any number of them."""
        found = {}
        for out in self.delivered:
            if out.error is None:
                decoded = self.codec.decode(out.payload, out.start, out.start + out.count)
                found.update(zip(out.serials, map(list, decoded), strict=True))
        return found

    @property
    def switches(self) -> list[SwitchEnded]:
        return [outcome for outcome in self.outcomes if isinstance(outcome, SwitchEnded)]

    def check_order(self, count: int) -> None:
        """Every serial left exactly once, in order."""
        left = [outcome for outcome in self.outcomes if isinstance(outcome, Delivered | Shed)]
        assert [serial for outcome in left for serial in outcome.serials] == list(range(count))
        view = self.engine.view()
        assert view.accepted == count == view.delivered + view.failed + view.shed
        assert (view.queued, view.in_flight) == (0, 0)


def expected(numbers: Iterable[int], skip: Iterable[int] = ()) -> list[Any]:
    """What a sequential run of the chain app gives."""
    total, values, skipped = 0, [], set(skip)
    for number in numbers:
        if number not in skipped:
            total += number
            values.append([number, "first", "second", total, "last"])
    return values
