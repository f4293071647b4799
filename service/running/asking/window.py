"""The results of a run that can still be read, and what is told to who asks for others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.bodies.refusals import ResultsGoneError
from service.bodies.results import Result
from service.running.asking.requests import ReadResults


@dataclass(frozen=True, slots=True)
class Window:
    """Of ``run``; None: there is none."""

    run: str | None
    kept: Sequence[Result] = ()
    """The latest ones, in order, without a gap."""
    out: int = 0
    """Serial numbers below are out."""
    given: int | None = None
    """Serial numbers below were given to items; None: not known."""

    def read(self, cursor: ReadResults) -> list[Result]:
        """What follows. Raises: ResultsGoneError when it begins in another run, or with what is no longer kept."""
        why = self._refusal(cursor)
        if why is not None:
            raise ResultsGoneError(f"{why}; {self._offer()}", self.run, self._first, self._last)
        begin = 0 if cursor.after is None or self._first is None else max(0, cursor.after + 1 - self._first)
        return [each.model_copy(update={"run": self.run}) for each in self.kept[begin : begin + cursor.limit]]

    def _refusal(self, cursor: ReadResults) -> str | None:
        if cursor.run is not None and cursor.run != self.run:
            return f"run {cursor.run!r} is over and its results are gone"
        if cursor.after is None:
            return None
        oldest = self.out if self._first is None else self._first
        if cursor.after + 1 < oldest:
            return f"results {cursor.after + 1} to {oldest - 1} are gone"
        if cursor.run is None and self.given is not None and cursor.after >= self.given:
            return f"serial number {cursor.after} was not given to an item in this run"
        return None

    def _offer(self) -> str:
        if self.run is None:
            return "there is no run; start one, then read without run and after"
        kept = "nothing yet" if self._first is None else f"{self._first} to {self._last}"
        return f"kept of run {self.run} is {kept}; read on from there with run={self.run}, without after"

    @property
    def _first(self) -> int | None:
        return self.kept[0].serial if self.kept else None

    @property
    def _last(self) -> int | None:
        return self.kept[-1].serial if self.kept else None
