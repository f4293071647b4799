"""Handle the pieces of a bundle at a partitioned stage: done, to be run again, or given up."""

from __future__ import annotations

from dataclasses import replace

from runtime.dispatch.events import TaskDone, TaskFailed
from runtime.dispatch.keyed.split import Piece
from runtime.dispatch.pipeline import TaskInWork
from runtime.dispatch.settings import DispatcherSettings
from runtime.dispatch.state import State
from runtime.dispatch.work import Work


class Pieces:
    """A value at fault is cut out of its piece, as an item is out of its bundle: those before it run first, then it
    alone, then those behind it, and in the end its item leaves as a dead letter. The worker has undone what a task that
    failed had changed."""

    def __init__(self, state: State, settings: DispatcherSettings, work: Work) -> None:
        self._partitioned = state.stateful.partitioned
        self._settings = settings
        self._work = work

    def done(self, task: TaskInWork, event: TaskDone, size_bytes: int) -> None:
        piece = self._end(task)
        piece.assembly.put(piece, event.payload, size_bytes, event.keyed.routes)
        self._work.piece_over(task.group, piece.assembly)

    def failed(self, task: TaskInWork, event: TaskFailed) -> None:
        """A stage raised on one of its values."""
        piece = self._end(task)
        if piece.count == 1:
            before = piece.assembly.trouble(piece)
            cost = piece.assembly.note(piece, replace(before, attempts=before.attempts + 1))
            self._again(piece, event.error, hopeless=cost.attempts >= self._settings.attempts)
        elif event.position is None:
            piece.assembly.halve(piece)
            piece.assembly.again(piece)
        else:
            piece.assembly.isolate(piece, event.position)
            piece.assembly.again(piece)
        self._work.piece_over(task.group, piece.assembly)

    def refused(self, task: TaskInWork) -> None:
        """A piece before it in its worker failed, and so it was not run: nothing is held against it."""
        piece = self._end(task)
        piece.assembly.again(piece)
        self._work.piece_over(task.group, piece.assembly)

    def lost(self, task: TaskInWork, why: str, *, number: int, heard: int | None) -> None:
        """Its worker is gone, which was the run's ``number``-th loss. ``heard``: as a suspect, which may have killed
        it, what ``Trouble.after_loss`` asks for; None: it is none."""
        piece = self._end(task)
        if heard is None:
            piece.assembly.again(piece)
        elif piece.count == 1:
            before = piece.assembly.trouble(piece)
            cost = piece.assembly.note(piece, before.after_loss(number, heard))
            if cost is not before:
                self._killed(task, piece)
            self._again(piece, why, hopeless=cost.losses >= self._settings.losses)
        else:
            self._killed(task, piece)
            piece.assembly.halve(piece)
            piece.assembly.again(piece)
        self._work.piece_over(task.group, piece.assembly)

    def _killed(self, task: TaskInWork, piece: Piece) -> None:
        """Record that a worker died with the piece. After one death it runs again as it is, for most pieces are
        harmless; after two it must not run in the group's last worker."""
        piece.assembly.killed(piece)
        if piece.assembly.deaths > 1:
            task.group.pipeline.tested.add(task.group)

    def _again(self, piece: Piece, error: str, *, hopeless: bool) -> None:
        if hopeless:
            piece.assembly.give_up(piece, error)
        else:
            piece.assembly.again(piece)

    def _end(self, task: TaskInWork) -> Piece:
        assert task.picked is not None, "a task of a whole bundle is no piece"
        keys = self._partitioned[task.group.first]
        piece = keys.piece(task.bundle, task.picked)
        keys.end(piece)
        return piece
