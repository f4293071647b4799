"""Kill workers, runner and daemon under a durable stream, and count lost and misordered items.

Every few seconds, in random turns: SIGKILL to a worker, to the runner, to the daemon (with which its Ray ends), and a
cut of the connection to the broker; two compositions alternate; a stage keeps sums by key; results go to a table.

    python -m lab.benchmarks.chaos [--stream push] [--seconds 600] [--every 10] [--json]
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import sqlite3
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import httpx

from lab.benchmarks.chaos_streams import STREAMS, Stream
from lab.benchmarks.daemon import Daemon, daemon
from lab.benchmarks.harness import Rows, Seed, main, progress

APPS = Path(__file__).parent / "chaos_apps"
GIVE_EVERY_S, ITEMS = 0.1, 10
LOOK_S = 0.02
END_S = 90.0
"""Longest wait for the next result when the killing is over."""


@dataclass(frozen=True)
class Verdict:
    """The table compared with the acknowledged items."""

    acknowledged: int
    rows: int
    lost: int
    """Missing items, although later items of their partition arrived."""
    behind: int
    """Items that did not arrive yet, like all later items of their partition."""
    doubled: int
    misordered: int
    """Items out of order within their partition."""
    wrong: int
    """Items whose sum differs from a serial run's over the previous rows."""


def judged(acknowledged: Sequence[tuple[str, int]], rows: Sequence[dict[str, Any]]) -> Verdict:
    """Judge ``rows``, given in the order of their serial numbers."""
    seen: set[tuple[str, int]] = set()
    last: dict[str, int] = {}
    sums: dict[str, int] = {}
    doubled = misordered = wrong = 0
    for row in rows:
        partition, number = row["partition"], row["n"]
        doubled += (partition, number) in seen
        misordered += number < last.get(partition, -1)
        sums[row["key"]] = sums.get(row["key"], 0) + number
        wrong += row["total"] != sums[row["key"]]
        seen.add((partition, number))
        last[partition] = max(number, last.get(partition, -1))
    missing = set(acknowledged) - seen
    lost = sum(number < last.get(partition, -1) for partition, number in missing)
    return Verdict(len(acknowledged), len(rows), lost, len(missing) - lost, doubled, misordered, wrong)


class Table:
    """The sink's table, read from outside without blocking its writer."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/results.db"
        self._db = sqlite3.connect(folder / "results.db", check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")

    @property
    def progress(self) -> tuple[int, int]:
        """Return the epoch, and the number of items in the table."""
        try:
            found = self._db.execute("SELECT epoch, until FROM recompose_results_runs").fetchone()
        except sqlite3.OperationalError:  # no item yet
            found = None
        return found or (0, 0)

    def rows(self) -> list[dict[str, Any]]:
        found = self._db.execute("SELECT value FROM recompose_results ORDER BY serial, part")
        return [json.loads(value) for (value,) in found]

    def close(self) -> None:
        self._db.close()


class Chaos:
    """One run with kills."""

    def __init__(self, up: Daemon, stream: Stream, table: Table, seed: int) -> None:
        self._up, self._stream, self._table = up, stream, table
        self._chance = random.Random(seed)
        self._over = threading.Event()
        self._progress: list[tuple[float, int, int]] = []
        """Time of new items, their epoch, and the number of items so far."""
        self._deaths: dict[str, list[float]] = {"runner": [], "daemon": []}
        self.done = dict.fromkeys(("worker", "runner", "daemon", "cut", "switch"), 0)

    def run(self, seconds: float, every_s: float) -> None:
        threads = [threading.Thread(target=each) for each in (self._give, self._watch)]
        for thread in threads:
            thread.start()
        try:
            self._harm(seconds, every_s)
            waited_until(lambda: all(map(math.isfinite, self.gaps_s("runner") + self.gaps_s("daemon"))))
        finally:
            self._over.set()
            for thread in threads:
                thread.join()

    def _give(self) -> None:
        while not self._over.wait(GIVE_EVERY_S):
            self._stream.give(ITEMS)

    def _watch(self) -> None:
        until = 0
        while not self._over.wait(LOOK_S):
            now_epoch, now_until = self._table.progress
            if now_until > until:
                self._progress.append((time.monotonic(), now_epoch, now_until))
            until = max(until, now_until)

    def _harm(self, seconds: float, every_s: float) -> None:
        end_s, turns = time.monotonic() + seconds, self._turns()
        while time.monotonic() < end_s:
            due_s = time.monotonic() + every_s
            self._switch()
            time.sleep(max(0.0, min(due_s, time.monotonic() + every_s * self._chance.random()) - time.monotonic()))
            kind, harm = next(turns)
            done = harm()
            self.done[kind] += done
            progress(f"{end_s - time.monotonic():6.1f} s left: {kind} {'hit' if done else 'missed'}")
            time.sleep(max(0.0, due_s - time.monotonic()))

    def _turns(self) -> Iterator[tuple[str, Callable[[], bool]]]:
        harms = {"worker": self._worker, "runner": self._runner, "daemon": self._daemon, "cut": self._cut}
        while True:
            yield from self._chance.sample(sorted(harms.items()), len(harms))

    def _status(self) -> dict[str, Any]:
        try:
            return self._up.status("tally")
        except httpx.HTTPError:
            return {}

    def _kill(self, pid: int | None) -> bool:
        try:
            os.kill(pid or 2**22, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def _worker(self) -> bool:
        workers = self._status().get("workers") or [{"pid": None}]
        return self._kill(self._chance.choice(workers)["pid"])

    def _runner(self) -> bool:
        pid, at_s = self._status().get("runner_pid"), time.monotonic()
        if not self._kill(pid):
            return False
        self._deaths["runner"].append(at_s)
        return True

    def _daemon(self) -> bool:
        self._deaths["daemon"].append(time.monotonic())
        self._up.kill()
        self._up.start()
        return True

    def _cut(self) -> bool:
        return self._stream.cut()

    def _switch(self) -> None:
        names = ("merged", "apart")
        try:
            body = {"mode": "pinned", "composition": names[self.done["switch"] % 2]}
            self.done["switch"] += self._up.http.put("/apps/tally/mode", json=body).is_success
        except httpx.HTTPError:
            return

    def gaps_s(self, of: str) -> list[float]:
        """Return the time from each death to the first output of a later epoch."""
        gaps = []
        for at_s in self._deaths[of]:
            epoch = max((each for came_s, each, _ in self._progress if came_s <= at_s), default=0)
            after = next((came_s for came_s, each, _ in self._progress if came_s > at_s and each > epoch), None)
            gaps.append(float("inf") if after is None else after - at_s)
        return gaps


def run(kind: str, seconds: float, every_s: float, seed: int, folder: Path) -> dict[str, Any]:
    with (
        daemon(folder, "--apps", str(APPS)) as up,
        closing(Table(folder)) as table,
        closing(STREAMS[kind](up, folder)) as stream,
    ):
        sink = {"kind": "sql", "path": table.url}
        body = {"source": stream.source(), "sink": sink, "durability": "exactly-once", "composition": "merged"}
        stream.give(1)
        up.send("POST", "/apps/tally/start", body)
        up.wait_for(lambda: table.progress[0] > 0, 60, "the run to begin")
        chaos = Chaos(up, stream, table, seed)
        chaos.run(seconds, every_s)
        whole = caught_up(table, stream.acknowledged)
        verdict = judged(stream.acknowledged, table.rows())
        gaps = {f"{of}_gap_s": _summary(chaos.gaps_s(of)) for of in ("runner", "daemon")}
        return {"stream": kind, "seconds": seconds, **chaos.done, **asdict(verdict), **gaps, "in_time": whole}


def caught_up(table: Table, acknowledged: Sequence[tuple[str, int]]) -> bool:
    """Wait as long as results arrive, because a busy machine has a backlog."""
    until = table.progress[1]  # read before the rows are judged: later ones count as more
    while until < len(acknowledged) or (verdict := judged(acknowledged, table.rows())).lost or verdict.behind:
        if not waited_until(lambda seen=until: table.progress[1] > seen):  # type: ignore[misc]
            return False
        until = table.progress[1]
    return True


def waited_until(true: Callable[[], bool]) -> bool:
    """Return False if the condition was not met in time."""
    give_up_s = time.monotonic() + END_S
    while not true():
        if time.monotonic() > give_up_s:
            return False
        time.sleep(0.2)
    return True


def _summary(gaps_s: Sequence[float]) -> dict[str, float]:
    return {"median": round(statistics.median(gaps_s), 2), "max": round(max(gaps_s), 2)} if gaps_s else {}


def measure(
    stream: Annotated[Literal["folder", "kafka", "nats", "push", "redis"], "kind of the source"] = "push",
    seconds: float = 600.0,
    every: Annotated[float, "seconds between two kills"] = 10.0,
    seed: Seed = 1,
    state: Annotated[Path | None, "folder that stays, to look into"] = None,
) -> Iterator[Rows]:
    with TemporaryDirectory() as temporary:
        folder = state or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found = run(stream, seconds, every, seed, folder)
    faults = [found[name] for name in ("lost", "behind", "doubled", "misordered", "wrong")]
    yield Rows("exactly-once under kills", [found], {"each item once, in order, right, in time": not any(faults)})


if __name__ == "__main__":
    main(measure)
