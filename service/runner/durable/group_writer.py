"""The only thread that writes a journal: it stores everything that waits in one transaction (group commit)."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from compositions.errors import RecomposeError
from datapipe.sources.push import BufferFull
from runtime.dispatch.checkpoint import StageStates
from runtime.dispatch.keys import KeyStates
from service.runner.durable.journal import Journal
from service.runner.durable.values import Commit, Pushed

RETRY_S = 0.5
"""Time between two attempts to store data after a failure, in seconds."""
Accept = Callable[[Sequence[Any]], None]
"""Function that gets pushed items once they are stored, in the order of the serial numbers."""


@dataclass(slots=True)
class _Ticket:
    values: tuple[Any, ...]
    items: Sequence[Any]
    first: Future[int] = field(default_factory=Future)


class GroupWriter:
    """Write a journal, in a thread that starts with the first write. Any thread may call all methods."""

    def __init__(self, journal: Journal, accept: Accept) -> None:
        self._journal, self._accept, self._next_serial = journal, accept, journal.found.accepted
        self.found = journal.found
        self._changed = threading.Condition()
        self._tickets: list[_Ticket] = []
        self._waiting: Commit | None = None
        self._stored: list[Commit] = []
        self._closing = False
        self._thread: threading.Thread | None = None
        self.wake: Callable[[], None] = lambda: None
        """Called if data was stored, or cannot be stored."""
        self.busy = False
        """True while a commit is in progress."""
        self.fault: str | None = None
        """Reason why nothing can be stored now."""
        self.failed: str | None = None
        """Reason why nothing can be stored any more."""

    def push(self, values: tuple[Any, ...], items: Sequence[Any]) -> int:
        """Store items; return the first serial number. Raises: BufferFull: no room now; RecomposeError: never again."""
        ticket = _Ticket(values, items)
        with self._changed:
            if self._over:
                raise RecomposeError(self.failed or "the app is stopping and accepts no more items")
            self._tickets.append(ticket)
            self._begin()
        return ticket.first.result()

    def submit(self, commit: Commit) -> None:
        """Queue a commit, to be stored together with the data that waits already."""
        with self._changed:
            self.busy = True
            if not self._over:
                self._waiting = commit if self._waiting is None else _joined(self._waiting, commit)
                self._begin()

    def stored(self) -> list[Commit]:
        """Return the commits that were stored since the last call."""
        with self._changed:
            stored, self._stored = self._stored, []
            return stored

    def close(self) -> None:
        """Store as much as possible, then close the journal."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        self._journal.close()

    @property
    def _over(self) -> bool:
        """Return whether the writer is closing; earlier commits may still be in progress."""
        return self._closing or self.failed is not None

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    # --- its thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while self.failed is None:
            tickets, commit = self._next()
            if self._closing and not tickets and commit is None:
                return
            try:
                self._store(tickets, commit)
            except OSError as error:
                self._hold_back(tickets, commit, str(error))
            except Exception as error:
                self._fail(tickets, error)
            self.wake()

    def _next(self) -> tuple[list[_Ticket], Commit | None]:
        """Return the data to store next."""
        with self._changed:
            if self.fault is None:
                self._changed.wait_for(lambda: self._tickets or self._waiting or self._closing)
            else:  # tried again with the next push or later, even without data, only to learn that the fault is over
                self._changed.wait_for(lambda: self._tickets or self._closing, RETRY_S)
            tickets, commit = self._tickets, self._waiting
            self._tickets, self._waiting = [], None
            return tickets, commit

    def _store(self, tickets: list[_Ticket], commit: Commit | None) -> None:
        pushed, next_serial = [], self._next_serial
        for ticket in tickets:
            pushed.append(Pushed(next_serial, ticket.values))
            next_serial = pushed[-1].end
        self._journal.store(commit, pushed)
        self._next_serial = next_serial
        for ticket, each in zip(tickets, pushed, strict=True):
            self._accept(ticket.items)
            ticket.first.set_result(each.first)
        with self._changed:
            self.fault = None
            self.busy = self._waiting is not None
            if commit is not None:
                self._stored.append(commit)

    def _hold_back(self, tickets: list[_Ticket], commit: Commit | None, why: str) -> None:
        """Handle a failed transaction: pushes are refused at once, commits wait and are tried again."""
        self._refuse(tickets, BufferFull(f"{why}; no item was accepted, try again later"))
        with self._changed:
            self.fault = why
            if commit is not None:
                self._waiting = commit if self._waiting is None else _joined(commit, self._waiting)
            if self._closing:
                self._waiting = None

    def _fail(self, tickets: list[_Ticket], error: Exception) -> None:
        with self._changed:
            self.failed = str(error) if isinstance(error, RecomposeError) else f"the journal failed: {error!r}"
            self._refuse([*tickets, *self._tickets], RecomposeError(self.failed))
            self._tickets = []

    def _refuse(self, tickets: list[_Ticket], why: RecomposeError) -> None:
        for ticket in tickets:
            if not ticket.first.done():  # some of those that were stored together may have been accepted
                ticket.first.set_exception(why)


def _joined(earlier: Commit, later: Commit) -> Commit:
    """Join two commits: the later one's progress; the changed states, positions and delivered results of both."""
    point = replace(later.checkpoint, keyed=_over(earlier.checkpoint.keyed, later.checkpoint.keyed))
    positions = {**earlier.positions, **later.positions}
    return replace(later, checkpoint=point, positions=positions, left=earlier.left + later.left)


def _over(earlier: StageStates, later: StageStates) -> StageStates:
    """Return the changes of both."""
    if not earlier or not later:
        return later or earlier
    stages = earlier.keys() | later.keys()
    return {stage: _joined_states(earlier.get(stage, {}), later.get(stage, {})) for stage in stages}


def _joined_states(earlier: Mapping[int, KeyStates], later: Mapping[int, KeyStates]) -> Mapping[int, KeyStates]:
    return {each: {**earlier.get(each, {}), **later.get(each, {})} for each in earlier.keys() | later.keys()}
