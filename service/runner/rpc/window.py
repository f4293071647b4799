"""The window of readable results of a run, and the refusal of requests for other results."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from service.runner.rpc.requests import ReadResults
from service.schemas.refusals import ResultsGoneError
from service.schemas.results import Result


@dataclass(frozen=True, slots=True)
class Window:
    """The readable results of ``run``; None: there is no run."""

    run: str | None
    kept: Sequence[Result] = ()
    """The latest rows, in order; an item has a row for each of its values."""
    out: int = 0
    """Serial numbers below this one are delivered."""
    given: int | None = None
    """Serial numbers below this one belong to items; None: unknown."""
    since: int | None = None
    """All rows of items from this serial number on are retained; None: from the first retained one."""

    def read(self, cursor: ReadResults) -> list[Result]:
        """Return the next results, up to the end of an item. Raises: ResultsGoneError if they are not retained."""
        why = self._refusal(cursor)
        if why is not None:
            raise ResultsGoneError(f"{why}; {self._offer()}", self.run, self._first, self._last)
        begin = 0 if cursor.after is None else self._behind(cursor.after)
        end = min(begin + cursor.limit, len(self.kept))
        if begin < end < len(self.kept):
            end = self._behind(self.kept[end - 1].serial)
        return [each.model_copy(update={"run": self.run}) for each in self.kept[begin:end]]

    def _behind(self, serial: int) -> int:
        """Return the position of the first row after those of this item."""
        return bisect_right(self.kept, serial, key=lambda row: row.serial)

    def _refusal(self, cursor: ReadResults) -> str | None:
        if cursor.run is not None and cursor.run != self.run:
            return f"run {cursor.run!r} is over and its results are gone"
        if cursor.after is None:
            return None
        oldest = self.out if self._first is None else self._first
        oldest = oldest if self.since is None else self.since
        if cursor.after + 1 < oldest:
            return f"results {cursor.after + 1} to {oldest - 1} are gone"
        if cursor.run is None and self.given is not None and cursor.after >= self.given:
            return f"no item of this run has serial number {cursor.after}"
        return None

    def _offer(self) -> str:
        if self.run is None:
            return "there is no run; start the app, then read without run and after"
        kept = "nothing yet" if self._first is None else f"{self._first} to {self._last}"
        return f"run {self.run} retains {kept}; continue from there with run={self.run}, without after"

    @property
    def _first(self) -> int | None:
        return self.kept[0].serial if self.kept else None

    @property
    def _last(self) -> int | None:
        return self.kept[-1].serial if self.kept else None
