"""The cadence that the thesis's controllers share: decide on the mean of new latencies, then wait for as many again."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque

from compositions.batch_settings import BatchSettings
from compositions.wording import figure
from control.batching.port import BatchController, BundleOpening, Choice, DeliveredBundle


class Sampled(BatchController):
    """Decides once ``sample`` latencies are there that it has not used yet, on the mean of the newest of them, and then
    forgets all (section 4.1: "only executed once we have received a number x"; that they are forgotten is inferred).

    The size is a real number and floored when a bundle takes it (inferred: with a floored state, PBAF with a step of 1
    would never move where its step is a fraction).
    """

    def __init__(self, settings: BatchSettings) -> None:
        self._sizes = settings.sizes
        self._new: deque[float] = deque(maxlen=settings.steps.sample)
        self._size = float(settings.sizes.first)
        self._choice = Choice(settings.sizes.first, "first: nothing was measured yet")

    def delivered(self, bundle: DeliveredBundle) -> None:
        self._new.append(bundle.latency_s)

    def next(self, opening: BundleOpening) -> Choice:
        if len(self._new) == self._new.maxlen:
            latency_s = sum(self._new) / len(self._new)
            self._new.clear()
            before, self._size = self._size, self._sizes.held(self.decide(latency_s, self._size))
            if int(self._size) != self._choice.items:
                sizes = f"size {figure(before, 4)} → {figure(self._size, 4)}"
                told = f"{self.name}: latency {figure(latency_s * 1e3)} ms, {sizes}"
                self._choice = Choice(int(self._size), told)
        return self._choice

    @abstractmethod
    def decide(self, latency_s: float, size: float) -> float:
        """The next size, before it is held within the bounds; may be infinite."""
