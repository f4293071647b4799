"""Servers that a test starts on loopback, and ends."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

PATIENCE_S = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(what: Callable[[], Any]) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < until_s, "it did not come"
        time.sleep(0.02)


class RedisServer:
    """Debian's; what it answered is on its disk."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("redis-server") is None:
            pytest.skip("redis-server is not installed; make setup-brokers installs it")
        redis = pytest.importorskip("redis", reason="the package redis is not installed; it is in extra redis")
        self.folder, self.port = folder, free_port()
        self.client = redis.Redis(port=self.port, decode_responses=True)
        self.start()

    def url(self, stream: str) -> str:
        return f"redis://127.0.0.1:{self.port}/0?stream={stream}"

    def start(self) -> None:
        where = ["--port", str(self.port), "--dir", str(self.folder), "--bind", "127.0.0.1"]
        how = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        self.server = subprocess.Popen(["redis-server", *where, *how], stdout=subprocess.DEVNULL)
        wait_until(lambda: answers(self.port))

    def end(self) -> None:
        self.server.terminate()
        self.server.wait()

    def close(self) -> None:
        self.client.close()
        self.end()


class NatsServer:
    """Debian's, with a stream on its disk."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("nats-server") is None:
            pytest.skip("nats-server is not installed; make setup-brokers installs it")
        self.nats: Any = pytest.importorskip("nats", reason="nats-py is not installed; it is in extra nats")
        self.folder, self.port = folder, free_port()
        self.start()

    def start(self) -> None:
        where = ["-p", str(self.port), "-a", "127.0.0.1", "-sd", str(self.folder)]
        self.server = subprocess.Popen(["nats-server", "-js", *where], stderr=subprocess.DEVNULL)
        wait_until(lambda: answers(self.port))

    def publish(self, stream: str, bodies: Sequence[bytes], subject: str | None = None, **limits: Any) -> None:
        async def all_of_them(jetstream: Any) -> None:
            await jetstream.add_stream(name=stream, subjects=[stream, f"{stream}.*"], **limits)
            for body in bodies:
                await jetstream.publish(subject or stream, body)

        self._do(all_of_them)

    def messages(self, stream: str) -> list[tuple[dict[str, str], bytes]]:
        """Headers and payload of each; none where the stream is not there."""
        found: list[tuple[dict[str, str], bytes]] = []

        async def all_of_them(jetstream: Any) -> None:
            with suppress(self.nats.js.errors.NotFoundError):
                state = (await jetstream.stream_info(stream)).state
                for sequence in range(max(1, state.first_seq), state.last_seq + 1):
                    message = await jetstream.get_msg(stream, sequence)
                    found.append((message.headers or {}, message.data or b""))

        self._do(all_of_them)
        return found

    def drop(self, stream: str) -> None:
        self._do(lambda jetstream: jetstream.delete_stream(stream))

    def drop_consumers(self, stream: str) -> None:
        async def all_of_them(jetstream: Any) -> None:
            for each in await jetstream.consumers_info(stream):
                await jetstream.delete_consumer(stream, each.name)

        self._do(all_of_them)

    def _do(self, what: Callable[[Any], Awaitable[Any]]) -> None:
        async def connected() -> None:
            client = await self.nats.connect(f"nats://127.0.0.1:{self.port}", connect_timeout=PATIENCE_S)
            try:
                await what(client.jetstream(timeout=PATIENCE_S))
            finally:
                await client.close()

        asyncio.run(connected())

    def end(self) -> None:
        self.server.terminate()
        self.server.wait()


class KafkaBroker:
    """Whatever ``RECOMPOSE_KAFKA`` starts, with ``{port}`` and ``{folder}`` in it: a command that stays in the
    foreground, such as a script around Apache's ``kafka-server-start.sh``. It makes topics of one partition when they
    are asked for. librdkafka's mock cluster keeps no offsets of transactions and shuts no producer out."""

    def __init__(self, folder: Path) -> None:
        self._command = os.environ.get("RECOMPOSE_KAFKA", "")
        if not self._command:
            pytest.skip("no Kafka broker with transactions: RECOMPOSE_KAFKA names no command that starts one")
        pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed; it is in extra kafka")
        self.folder, self.port = folder, free_port()
        self.start()

    def start(self) -> None:
        command = shlex.split(self._command.format(port=self.port, folder=self.folder))
        self.server = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
        wait_until(lambda: answers(self.port))

    def end(self) -> None:
        os.killpg(self.server.pid, signal.SIGTERM)
        self.server.wait()
