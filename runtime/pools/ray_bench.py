"""A task as a message becomes its reply as a message, where the worker lives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apps.contract import App
from runtime.arena.shelves import TaskShelf
from runtime.pools.alone import perform_alone
from runtime.pools.calls import Calls
from runtime.pools.execute import StageError
from runtime.pools.perform import perform
from runtime.pools.ray_language import Language
from runtime.transport.values import Carried, FrameCodec
from runtime.transport.wire import Message


class Bench:
    """Turns a task into its reply."""

    def __init__(self, app: App, stages: tuple[str, ...], shelf: TaskShelf) -> None:
        self.calls, self._shelf = Calls(app), shelf
        self._codec = FrameCodec(shelf)
        self._language = Language(stages, self._codec)

    def work_alone(self, task: Message) -> Message | None:
        """The same at once, for a task of one item through plain stages; None: it is another one."""
        language, shelf = self._language, self._shelf
        if task.blocks or shelf.has_room:
            shelf.enter(task.blocks)
        try:
            performed = perform_alone(self.calls, language.stages_of(task), task, self._codec)
            if performed is None:
                return None
            answer = language.answer_alone(task, *performed)
        except StageError as error:
            answer = language.refusal(task, error)
        return self._with_let_go(answer) if shelf.ended else answer

    def alone(self, task: Message) -> bool:
        """As of ``Calls``."""
        return self.calls.alone(self._language.stages_of(task))

    async def work(self, task: Message) -> Message:
        """The answer, and which blocks of the arena nothing here refers to any more."""
        return self._with_let_go(await self._answer(task))

    def _with_let_go(self, answer: Message) -> Message:
        let_go = self._shelf.let_go()
        return answer._replace(blocks=let_go) if let_go else answer

    async def _answer(self, task: Message) -> Message:
        """DONE, PARTLY or FAILED."""
        try:
            codec = _TaskCodec(self._codec, self._shelf, task.blocks)
            performed = await perform(self.calls, self._language.task(task), codec)
            return self._language.answer(task, performed)
        except StageError as error:
            return self._language.refusal(task, error)


class _TaskCodec:
    """Writes into the room of its task, whichever others have begun since."""

    def __init__(self, codec: FrameCodec, shelf: TaskShelf, room: Sequence[int]) -> None:
        self._codec, self._shelf = codec, shelf
        self._room: Sequence[int] | None = room
        self.decode, self.size_bytes = codec.decode, codec.size_bytes

    def encode(self, values: Sequence[Any]) -> list[Carried]:
        """A task does not wait between the first and the last value that it writes."""
        if self._room is not None:
            self._shelf.enter(self._room)
            self._room = None
        return self._codec.encode(values)
