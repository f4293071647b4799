"""Frames in an arena with too little room, among workers that do with them what stages do, against plain copies."""

import os
import socket
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from runtime.arena.arena import Arena
from runtime.arena.frame_store import RunnerShelf, WorkerShelf
from runtime.arena.reference import Segment
from runtime.transport.account import Accounts
from runtime.transport.values import FrameCodec
from runtime.transport.wire import Kind, Message
from tests.support.wire import through

Array = np.ndarray[Any, np.dtype[np.uint8]]
WORKERS, ITEMS, KEPT = 2, 3, 2
ACTIONS = ("pass", "part", "write", "anew", "keep", "drop", "write and fail", "two")
ON_ONE = st.integers(0, ITEMS - 1), st.integers(0, 250)
STEPS = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.integers(0, WORKERS - 1), *ON_ONE)
    | st.tuples(st.sampled_from(["new", "lose"]), st.just(0), *ON_ONE),
    max_size=40,
)


class Worker:
    """Both ends of one, with maps of its own; ``kept`` beside what it must still be."""

    def __init__(self, arena: Arena, accounts: Accounts) -> None:
        self._segment = Segment(os.dup(arena.segment.descriptor))
        self._shelf = WorkerShelf(self._segment)
        self._codec = FrameCodec(self._shelf)
        self.account = accounts.open()
        self.kept: list[tuple[Array, Array]] = []
        self.tasks = 0

    def work(self, payload: Any, action: str, number: int) -> Any:
        """The payload of the answer; None when the stage raised."""
        self.tasks += 1
        task = through(self.account.going([Message(Kind.TASK, self.tasks, ACTIONS.index(action), 1, payload)])[0])
        self._shelf.enter(task.blocks)
        answer = self._answer(task, action, number)
        answer = self.account.came(through(answer._replace(blocks=self._shelf.let_go())))
        return answer.payload if answer.kind == Kind.DONE else None

    def _answer(self, task: Message, action: str, number: int) -> Message:
        (value,) = self._codec.decode(task.payload)
        value = self._stage(value, action, number)
        if value is None:
            return Message(Kind.FAILED, task.task_id, task.first, payload=[b"told to"])
        return Message(Kind.DONE, task.task_id, task.first, 1, self._codec.encode([value]))

    def _stage(self, value: Array, action: str, number: int) -> Array | None:
        if action == "keep":
            self.kept = [*self.kept, (value, value.copy())][-KEPT:]
        if action == "drop":
            self.kept.clear()
        return changed(value, action, number)

    def leave(self) -> None:
        ours, its = socket.socketpair()
        self.account.close(ours)
        its.close()
        self.kept.clear()
        self._segment.forget_descriptor()


def changed(value: Array, action: str, number: int) -> Array | None:
    """What the stage returns; it may write on its array."""
    if action.startswith("write"):
        value[number * 257 : number * 257 + 5] = number
    if action == "write and fail":
        return None
    if action == "anew":
        return value + np.uint8(number)
    if action == "part" and len(value) > 70_000:
        return value[number : number + 66_000 + number]
    if action == "two":
        return value[: len(value) // 2 * 2].reshape(2, -1)[1 if len(value) > 140_000 else 0 :].reshape(-1)
    return value


def fresh(number: int) -> Array:
    return (np.arange(64_300 + number * 500) * (number + 1)).astype(np.uint8)


@given(STEPS)
def test_a_stage_gets_what_the_last_one_returned_and_keeps_what_it_kept(steps: list[tuple[str, int, int, int]]) -> None:
    arena = Arena(Segment.create(1_000_000))
    accounts = Accounts(arena)
    codec = FrameCodec(RunnerShelf(arena))
    workers = [Worker(arena, accounts) for _ in range(WORKERS)]
    expected = [fresh(number) for number in range(ITEMS)]
    payloads = [codec.encode([value]) for value in expected]
    for action, which, item, number in steps:
        if action == "new":
            expected[item] = fresh(number)
            payloads[item] = codec.encode([fresh(number)])
        elif action == "lose":
            workers.pop(0).leave()
            workers.append(Worker(arena, accounts))
        else:
            payload = workers[which].work(payloads[item], action, number)
            value = changed(expected[item].copy(), action, number)
            assert (payload is None) == (value is None)
            if value is not None:
                payloads[item], expected[item] = payload, value
            del payload
        for carried, value in zip(payloads, expected, strict=True):
            assert np.array_equal(codec.decode(carried)[0], value)
        carried = None
        assert all(np.array_equal(kept, then) for worker in workers for kept, then in worker.kept)
    payloads.clear()
    for worker in workers:
        worker.leave()
    assert arena.take(1) is not None
    assert arena.used_bytes == 0
    accounts.close()
