"""Frames in shared memory among real processes, any of which is killed: no frame is lost or spoilt, nothing is left."""

import gc
import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from apps.contract import App
from compositions.model import Stage
from runtime.arena.reference import ArenaSettings, Reference, in_pages, memory_bytes
from runtime.pools.ray.worker import Part, run_worker
from runtime.transport.hub import Hub
from runtime.transport.wire import Kind, Message
from tests.support.waiting import wait_until

SPAWN = multiprocessing.get_context("spawn")
SIZE, PATIENCE_S = 1_000_000, 60.0


class Touchy(App):
    """Stages that look at frames, make them anew, write on them, and die in the middle of one."""

    name = "touchy"
    stages = tuple(Stage(name) for name in ("same", "anew", "write", "die"))

    def same(self, value: Any) -> Any:
        assert (value == value[0]).all()
        return value

    def anew(self, value: Any) -> Any:
        return value + 1

    def write(self, value: Any) -> Any:
        value += 1
        return value

    def die(self, value: Any) -> Any:
        value[:] = 99
        os.kill(os.getpid(), signal.SIGKILL)


STAGES = tuple(stage.name for stage in Touchy.stages)


class Runner:
    """A hub with an arena, and workers as processes, without Ray and without a dispatcher."""

    def __init__(self) -> None:
        self.hub = Hub(arena=ArenaSettings((1 << 28) / memory_bytes()))
        self.codec = self.hub.accounts.codec
        self.arena = self.hub.accounts.arena
        self.workers: dict[str, Any] = {}
        self._tasks = 0
        self._come: deque[tuple[str, Message | None]] = deque()
        """What a poll brought and nobody asked for yet."""

    def start(self, *names: str) -> None:
        for name in names:
            args = (self.hub.invite(name), Part(Touchy, STAGES), ("127.0.0.1", "node"))
            self.workers[name] = SPAWN.Process(target=run_worker, args=args, daemon=True)
            self.workers[name].start()
        for _ in names:
            _, message = self.next()
            assert message.kind == Kind.READY

    def encode(self, value: Any) -> Any:
        return self.codec.encode([value])

    def decode(self, payload: Any) -> Any:
        return self.codec.decode(payload)[0]

    def send(self, worker: str, payload: Any, stage: str) -> None:
        self._tasks += 1
        self.hub.send(worker, [Message(Kind.TASK, self._tasks, STAGES.index(stage), 1, payload)])

    def next(self) -> tuple[str, Message | None]:
        give_up_s = time.monotonic() + PATIENCE_S
        while not self._come and time.monotonic() < give_up_s:
            self._come += self.hub.poll(0.5)
        assert self._come, "nothing came"
        return self._come.popleft()

    def run(self, worker: str, payload: Any, stage: str) -> Any:
        """The payload of the answer."""
        self.send(worker, payload, stage)
        _, message = self.next()
        assert message.kind == Kind.DONE, bytes(message.payload[0]).decode()
        return message.payload

    def close(self) -> None:
        self.hub.close()
        for process in self.workers.values():
            process.join(PATIENCE_S)
            process.close()


@pytest.fixture
def runner() -> Iterator[Runner]:
    """Leaves no descriptor and no name behind."""
    gc.collect()
    descriptors = len(os.listdir("/proc/self/fd"))
    runner = Runner()
    yield runner
    assert not named([process.pid for process in runner.workers.values()])
    runner.close()
    del runner.hub, runner.arena, runner.codec
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 1  # multiprocessing keeps one for the end of its children


def frame(number: int) -> np.ndarray:
    return np.full(SIZE, number, np.uint8)


def maps(pid: int) -> list[str]:
    """What a process has mapped; nothing, if it is gone."""
    try:
        return Path(f"/proc/{pid}/maps").read_text().splitlines()
    except (OSError, ProcessLookupError):
        return []


def holders(pids: list[int]) -> list[int]:
    """Those of the processes that have an arena."""
    return [pid for pid in pids if any("recompose-arena" in line for line in maps(pid))]


def named(pids: list[int]) -> list[str]:
    """What they have of shared memory with a name, which could be left behind."""
    return [line for pid in pids for line in maps(pid) if "/dev/shm/" in line and "(deleted)" not in line]


def test_frames_go_from_process_to_process_by_reference(runner: Runner) -> None:
    runner.start("w1", "w2")
    for number in range(20):
        payload = runner.encode(frame(number))
        for worker, stage in (("w1", "same"), ("w2", "anew"), ("w1", "write"), ("w2", "same")):
            payload = runner.run(worker, payload, stage)
        assert number == 0 or isinstance(payload[1], Reference)
        np.testing.assert_array_equal(runner.decode(payload), frame(number + 2))
        del payload
        assert runner.arena.used_bytes == 0


def test_a_killed_worker_costs_no_frame_and_its_retry_gets_what_went_in(runner: Runner) -> None:
    runner.start("w1", "w2", "w3")
    payload = runner.encode(frame(3))
    result = runner.run("w2", runner.run("w2", payload, "anew"), "anew")
    for worker in ("w1", "w2"):
        runner.send(worker, payload, "die")
        assert runner.next() == (worker, None)
    assert (runner.decode(runner.run("w3", payload, "same")) == 3).all()
    assert (runner.decode(result) == 5).all()  # of a worker that is dead
    del payload, result
    assert runner.arena.used_bytes == 0


def test_a_hung_worker_that_is_given_up_keeps_its_room_until_it_is_dead(runner: Runner) -> None:
    runner.start("w1")
    payload = runner.encode(frame(3))
    for _ in range(2):
        runner.run("w1", payload, "anew")  # now it gets room with a task
    process = psutil.Process(runner.workers["w1"].pid)
    process.suspend()
    wait_until(lambda: process.status() == psutil.STATUS_STOPPED)
    runner.send("w1", payload, "anew")
    del payload
    runner.hub.drop("w1")
    assert runner.arena.used_bytes == in_pages(SIZE)  # the room
    process.kill()
    wait_until(lambda: runner.arena.take(1) is not None and runner.arena.used_bytes == 0)


def test_memory_is_flat_over_many_frames(runner: Runner) -> None:
    runner.start("w1", "w2")

    def own_bytes(worker: str) -> int:
        status = Path(f"/proc/{runner.workers[worker].pid}/status").read_text()
        return int(status.split("RssAnon:")[1].split()[0]) * 1024

    def carry(times: int) -> None:
        for number in range(times):
            payload = runner.run("w1", runner.encode(frame(number % 100)), "write")
            payload = runner.run("w2", payload, "anew")
            assert (runner.decode(payload) == number % 100 + 2).all()

    carry(50)
    before = {worker: own_bytes(worker) for worker in ("w1", "w2")}
    carry(500)
    for worker, bytes_before in before.items():
        assert own_bytes(worker) < bytes_before + 8 * SIZE
    assert os.stat(runner.arena.segment.descriptor).st_blocks * 512 < 8 * SIZE
    assert runner.arena.used_bytes == 0


def _run_and_wait(told: Connection) -> None:
    runner = Runner()
    runner.start("w1", "w2")
    payload = runner.run("w1", runner.encode(frame(3)), "same")
    runner.send("w2", payload, "same")
    told.send([process.pid for process in runner.workers.values()])
    told.recv()  # never


@pytest.mark.parametrize("also_workers", [False, True])
def test_a_killed_runner_leaves_nothing(also_workers: bool) -> None:
    here, there = SPAWN.Pipe()
    process = SPAWN.Process(target=_run_and_wait, args=(there,))
    process.start()
    workers = here.recv()
    assert holders([process.pid, *workers]) == [process.pid, *workers]
    assert not named([process.pid, *workers])
    for pid in [process.pid, *(workers if also_workers else [])]:
        os.kill(pid, signal.SIGKILL)
    process.join(PATIENCE_S)
    wait_until(lambda: not holders(workers))
    here.close()
    there.close()
