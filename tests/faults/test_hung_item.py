"""An item that hangs under a source that gives all it can: memory stays within its budgets, and the stream goes on."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import pytest

from compositions.model import Composition, Group, Pattern
from control.decisions import Mode
from runtime.pools.ray import cluster
from service.runner.rpc.requests import ReadStatus, Start, Stop
from service.runner.runner import Runner
from service.schemas.spec import BatchingSpec, RunSpec

MB = 1_000_000
STARTED, WAITING = 320 * MB, 80 * MB
HANG_FROM, FURTHER, PATIENCE_S = 100, 300, 60.0
LOOKS = 40
"""In a row, 50 ms apart, at which nothing moves: the stream is held back."""


def memory_bytes() -> int:
    """Of this process, with the runner in it, and of what it shares with the workers. RSS has the latter twice, for it
    is mapped twice."""
    status, own = Path("/proc/self/status").read_text(), Path("/proc/self/fd")
    arenas = [each for each in own.iterdir() if "recompose-arena" in _target(each)]
    shared: dict[int, int] = {}
    for arena in arenas:
        with suppress(FileNotFoundError):  # it was closed meanwhile
            seen = arena.stat()
            shared[seen.st_ino] = seen.st_blocks * 512
    return int(status.split("RssAnon:")[1].split()[0]) * 1024 + sum(shared.values())


def _target(descriptor: Path) -> str:
    try:
        return os.readlink(descriptor)
    except OSError:  # the one of the folder itself
        return ""


class Stream:
    """One item hangs. ``most_bytes``: the most memory that was seen."""

    def __init__(self, folder: Path, overload: Literal["block", "shed"], batching: BatchingSpec) -> None:
        self.told, self.out = folder / "told", folder / "out.jsonl"
        groups = (Group(("anew",), Pattern.PAR, 2), Group(("same",)))
        self.runner = Runner(
            RunSpec(
                app="hanging", apps_dirs=(str(Path(__file__).parent / "apps"),), overload=overload, batching=batching,
                options={"hang_from": HANG_FROM, "told": str(self.told)}, strategy="static",
                mode=Mode.PINNED, compositions=(Composition("two", groups),), composition="two", out_path=str(self.out),
                settings={"started_bytes": STARTED, "buffer_bytes": WAITING, "buffer_items": 10_000},
            )
        )  # fmt: skip
        self.most_bytes = 0

    @contextmanager
    def running(self) -> Iterator[Stream]:
        self.runner.ask(Start())
        try:
            yield self
        finally:
            self.runner.ask(Stop(), timeout_s=PATIENCE_S)

    def until(self, happened: Callable[[], bool]) -> None:
        until_s = time.monotonic() + PATIENCE_S
        while not happened():
            assert time.monotonic() < until_s, self.runner.ask(ReadStatus())
            assert not self.runner.wait(0.05), self.runner.ask(ReadStatus()).health.failure
            self.most_bytes = max(self.most_bytes, memory_bytes())

    @property
    def hung(self) -> tuple[int, int] | None:
        """The process that hung, and its item."""
        if not self.told.exists():
            return None
        pid, number = map(int, self.told.read_text().split())
        return pid, number

    def held_back(self) -> None:
        """Until nothing moves any more, but for what is shed."""
        self.until(self.told.exists)
        seen: list[Any] = []
        self.until(lambda: self._stands(seen))

    def _stands(self, seen: list[Any]) -> bool:
        status = self.runner.ask(ReadStatus())
        budgets = status.resources.budgets
        seen.append((status.items.delivered, status.in_flight, budgets and budgets.started.used))
        return len(seen) > LOOKS and len(set(seen[-LOOKS:])) == 1

    def delivers(self, more: int) -> None:
        before = self.runner.ask(ReadStatus()).items.delivered
        self.until(lambda: self.runner.ask(ReadStatus()).items.delivered >= before + more)

    def check(self) -> None:
        """All once and in order, whole, or shed before they were started."""
        rows = [json.loads(line) for line in self.out.read_text().splitlines()]
        items = self.runner.ask(ReadStatus()).items
        assert [row["serial"] for row in rows] == list(range(items.accepted))
        shed = [row for row in rows if "error" in row]
        assert len(shed) == items.shed
        assert all(row["error"].startswith("shed") for row in shed)
        values = [row["value"] for row in rows if "value" in row]
        whole = [row["serial"] for row in rows if "value" in row]
        assert values == [[serial, serial % 200 + 1, serial % 200 + 1] for serial in whole]
        assert self.hung[1] in whole


@pytest.fixture(scope="module", autouse=True)
def warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What the first run of a process costs is no item's."""
    cluster.connect()
    stream = Stream(tmp_path_factory.mktemp("warm"), "block", BatchingSpec(items=1))
    stream.told.write_text("0 0")
    with stream.running():
        stream.delivers(50)


@pytest.mark.parametrize(
    ("overload", "size"),
    [
        ("block", 1),
        *(pytest.param(*other, marks=pytest.mark.long) for other in (("block", 200), ("shed", 1), ("shed", 200))),
    ],
)
def test_memory_stays_within_the_budgets(tmp_path: Path, overload: Literal["block", "shed"], size: int) -> None:
    before = memory_bytes()
    stream = Stream(tmp_path, overload, BatchingSpec(items=size, linger_ms=0 if size == 1 else 500))
    with stream.running():
        stream.held_back()
        os.kill(stream.hung[0], signal.SIGKILL)
        stream.delivers(FURTHER)
    stream.check()
    print(f"grew by {(stream.most_bytes - before) / MB:.0f} MB; budgets {(STARTED + WAITING) / MB:.0f} MB")
    assert stream.most_bytes - before <= 1.2 * (STARTED + WAITING)
