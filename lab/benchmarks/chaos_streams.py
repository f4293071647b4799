"""Streams of the chaos benchmark: each gives numbered items to one kind of source, and its connection can be cut.

Acknowledged items are pushes that were answered, entries that the server has, and files with their final name.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import shutil
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from lab.benchmarks.daemon import Daemon, free_port

Item = dict[str, Any]
KEYS = 17


def item(partition: str, number: int) -> Item:
    return {"partition": partition, "n": number, "key": f"{partition}{number % KEYS}"}


class Stream(ABC):
    """A stream. The items of each partition are numbered separately, without gaps if no item is refused."""

    partitions: tuple[str, ...] = ("a", "b")

    def __init__(self) -> None:
        self.acknowledged: list[tuple[str, int]] = []
        self._next = dict.fromkeys(self.partitions, 0)

    @abstractmethod
    def source(self) -> dict[str, Any]:
        """Return the source of the start body."""

    def give(self, count: int) -> None:
        """Put ``count`` items into each partition."""
        for partition in self.partitions:
            first = self._next[partition]
            items = [item(partition, number) for number in range(first, first + count)]
            self._next[partition] = first + count
            self.acknowledged += [(partition, each["n"]) for each in self._put(partition, items)]

    @abstractmethod
    def _put(self, partition: str, items: Sequence[Item]) -> Sequence[Item]:
        """Put items; return the acknowledged ones."""

    def cut(self) -> bool:
        """Cut the reader's connection; return False if there is none."""
        return False

    def close(self) -> None:
        """End everything that was started."""
        self._next.clear()


class Pushed(Stream):
    """One sender. An item without an answer is not sent again, as the app may have accepted it."""

    partitions = ("a",)

    def __init__(self, up: Daemon, folder: Path) -> None:
        super().__init__()
        self._up = up

    def source(self) -> dict[str, Any]:
        return {"kind": "push"}

    def _put(self, partition: str, items: Sequence[Item]) -> Sequence[Item]:
        try:
            answer = self._up.http.post("/apps/tally/items", params={"many": "true"}, json=list(items), timeout=15)
            return items[: len(answer.json().get("serials", []))]
        except (httpx.TransportError, ValueError):
            return []


class Folder(Stream):
    """Writes a file per call and renames it into the folder. The order of names is the order of the stream."""

    partitions = ("a",)

    def __init__(self, up: Daemon, folder: Path) -> None:
        super().__init__()
        self._folder = folder / "in"
        self._folder.mkdir()

    def source(self) -> dict[str, Any]:
        return {"kind": "folder", "path": str(self._folder)}

    def _put(self, partition: str, items: Sequence[Item]) -> Sequence[Item]:
        aside = self._folder / ".aside"
        aside.write_text("".join(json.dumps(each) + "\n" for each in items), encoding="utf-8")
        aside.rename(self._folder / f"{items[0]['n']:09d}.jsonl")
        return items


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Redis(Stream):
    """Two streams of Debian's server."""

    def __init__(self, up: Daemon, folder: Path) -> None:
        super().__init__()
        import redis

        if shutil.which("redis-server") is None:
            raise SystemExit("redis-server is not installed; make setup-brokers installs it")
        self._port = free_port()
        where = ("--port", str(self._port), "--bind", "127.0.0.1", "--dir", str(folder))
        self._server = subprocess.Popen(["redis-server", *where, "--save", ""], stdout=subprocess.DEVNULL)
        self._client = redis.Redis(port=self._port)
        up.wait_for(lambda: _answers(self._port), 10, "redis-server")

    def source(self) -> dict[str, Any]:
        return {"kind": "redis", "path": f"redis://127.0.0.1:{self._port}/0?stream=a&stream=b"}

    def _put(self, partition: str, items: Sequence[Item]) -> Sequence[Item]:
        for each in items:
            self._client.xadd(partition, {"value": json.dumps(each)})
        return items

    def cut(self) -> bool:
        return bool(self._client.client_kill_filter(_type="normal", skipme=True))

    def close(self) -> None:
        self._client.close()
        self._server.terminate()
        self._server.wait()


class Kafka(Stream):
    """Two partitions of a topic of librdkafka's mock cluster, which runs in this process with its sockets."""

    partitions = ("0", "1")

    def __init__(self, up: Daemon, folder: Path) -> None:
        super().__init__()
        import confluent_kafka

        self._producer = confluent_kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none"})
        broker = next(iter(self._producer.list_topics(timeout=10).brokers.values()))
        self._host, self._port = broker.host, broker.port

    def source(self) -> dict[str, Any]:
        return {"kind": "kafka", "path": f"kafka://{self._host}:{self._port}/items"}

    def _put(self, partition: str, items: Sequence[Item]) -> Sequence[Item]:
        done: list[Item] = []
        for each in items:
            told = lambda error, _, each=each: None if error else done.append(each)  # noqa: E731
            self._producer.produce("items", json.dumps(each).encode(), partition=int(partition), on_delivery=told)
        self._producer.flush(10)
        return done

    def cut(self) -> bool:
        """Cut the broker's ends of all connections, among them our own producer's, which sends again in order."""
        mine = {inode for inode, port, state in _tcp() if port == self._port and state == ESTABLISHED}
        for name in os.listdir("/proc/self/fd"):
            try:
                found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/self/fd/{name}"))
            except OSError:  # it was the one of this listing
                continue
            if found and found[1] in mine:
                with socket.socket(fileno=os.dup(int(name))) as end:
                    end.shutdown(socket.SHUT_RDWR)
        return bool(mine)

    def close(self) -> None:
        del self._producer
        gc.collect()


ESTABLISHED = "01"


def _tcp() -> list[tuple[str, int, str]]:
    """Return inode, local port and state of each socket."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    return [(row[9], int(row[1].rpartition(":")[2], 16), row[3]) for row in rows]


class Nats(Stream):
    """A stream of JetStream of Debian's server, which is killed and started anew: so all connections are cut."""

    partitions = ("a",)

    def __init__(self, up: Daemon, folder: Path) -> None:
        super().__init__()
        import nats

        if shutil.which("nats-server") is None:
            raise SystemExit("nats-server is not installed; make setup-brokers installs it")
        self._nats, self._errors = nats, (OSError, nats.errors.Error, asyncio.TimeoutError)
        self._port = free_port()
        self._command = ["nats-server", "-js", "-a", "127.0.0.1", "-p", str(self._port), "-sd", str(folder / "nats")]
        self._server = self._started()
        up.wait_for(lambda: _answers(self._port), 10, "nats-server")

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, stderr=subprocess.DEVNULL)

    def source(self) -> dict[str, Any]:
        return {"kind": "nats", "path": f"nats://127.0.0.1:{self._port}/items"}

    def _put(self, partition: str, items: Sequence[Item]) -> Sequence[Item]:
        done: list[Item] = []
        with suppress(*self._errors):
            asyncio.run(self._publish(items, done))
        return done

    async def _publish(self, items: Sequence[Item], done: list[Item]) -> None:
        """Publish in order, and stop at the first that is not answered."""
        how = {"allow_reconnect": False, "max_reconnect_attempts": 1, "connect_timeout": 2}
        client = await self._nats.connect(f"nats://127.0.0.1:{self._port}", error_cb=_told_by_answers, **how)
        try:
            stream = client.jetstream(timeout=2)
            await stream.add_stream(name="items", subjects=["items"])
            for each in items:
                await stream.publish("items", json.dumps(each).encode())
                done.append(each)
        finally:
            await client.close()

    def cut(self) -> bool:
        self._server.kill()
        self._server.wait()
        self._server = self._started()
        return True

    def close(self) -> None:
        self._server.terminate()
        self._server.wait()


async def _told_by_answers(_: Exception) -> None:
    """Ignore an error, which the library would otherwise log."""


STREAMS: dict[str, type[Any]] = {"push": Pushed, "folder": Folder, "redis": Redis, "kafka": Kafka, "nats": Nats}
