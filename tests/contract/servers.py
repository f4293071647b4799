"""Servers that a test starts on loopback, and ends."""

import asyncio
import os
import shlex
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from lab.benchmarks.daemon import free_port
from tests.support.relay import Relay, answers
from tests.support.waiting import wait_until

PATIENCE_S = 30.0
PROGRAMS = f"{os.environ['PATH']}:/usr/sbin"
LAST = b"no more"
"""Payload of a message that ends what is read of a topic."""


def needed(program: str, module: str, extra: str) -> Any:
    """The module, where there is a server for it."""
    if shutil.which(program, path=PROGRAMS) is None:
        pytest.skip(f"{program} is not installed; make setup-brokers installs it")
    return pytest.importorskip(module, reason=f"{module} is not installed; it is in extra {extra}")


class Server:
    """A process that a test starts and ends, with a port and a folder for what it keeps."""

    server: subprocess.Popen[bytes]

    def __init__(self, folder: Path, *command: str) -> None:
        self.folder, self.port = folder, free_port()
        program, *words = (each.format(port=self.port, folder=folder) for each in command)
        self._command = [shutil.which(program, path=PROGRAMS) or program, *words]
        self.start()

    def start(self) -> None:
        how = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
        self.server = subprocess.Popen(self._command, **how)
        wait_until(lambda: answers(self.port))

    def end(self) -> None:
        self.server.terminate()
        self.server.wait()


class Place:
    """A place of one kind that a test fills."""

    kind: str
    path: str
    options: dict[str, Any] = {}
    shared = False
    """One server for all places, which is given to each."""
    down: Any = None
    """The server, or the way to it, that a test can end and start; None: there is none."""

    def put(self, bodies: Sequence[bytes]) -> None:
        """Put them in this order, where there is one."""
        raise NotImplementedError

    def restart(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """``meanwhile`` the server is away."""
        if self.down is None:
            pytest.skip(f"{self.kind} is no server that a test can stop and start")
        self.down.end()
        meanwhile()
        self.down.start()

    def close(self) -> None:
        if self.down is not None:
            self.down.end()


def maker(request: pytest.FixtureRequest, kinds: Mapping[str, Any]) -> Callable[[Path], Any]:
    """What makes a place of one of these kinds from a folder."""
    kind = kinds[request.param]
    if not kind.shared:
        return kind  # type: ignore[no-any-return]
    server = request.getfixturevalue("rabbitmq")
    return lambda _: kind(server)


class RedisServer(Server):
    """Debian's; what it answered is on its disk."""

    def __init__(self, folder: Path) -> None:
        redis = needed("redis-server", "redis", "redis")
        where = "redis-server --port {port} --dir {folder} --bind 127.0.0.1"
        super().__init__(folder, *where.split(), *["--appendonly", "yes", "--appendfsync", "always", "--save"], "")
        self.client = redis.Redis(port=self.port, decode_responses=True)

    def close(self) -> None:
        self.client.close()
        self.end()


class NatsServer(Server):
    """Debian's, with a stream on its disk."""

    def __init__(self, folder: Path) -> None:
        self.nats = needed("nats-server", "nats", "nats")
        super().__init__(folder, *["nats-server", "-js", "-p", "{port}", "-a", "127.0.0.1", "-sd", "{folder}"])

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


class KafkaBroker(Server):
    """Whatever ``RECOMPOSE_KAFKA`` starts, with ``{port}`` and ``{folder}`` in it: a command that stays in the
    foreground, such as a script around Apache's ``kafka-server-start.sh``. It makes topics of one partition when they
    are asked for. librdkafka's mock cluster keeps no offsets of transactions and shuts no producer out."""

    def __init__(self, folder: Path) -> None:
        command = os.environ.get("RECOMPOSE_KAFKA", "")
        if not command:
            pytest.skip("no Kafka broker with transactions: RECOMPOSE_KAFKA names no command that starts one")
        pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed; it is in extra kafka")
        super().__init__(folder, *shlex.split(command))

    def end(self) -> None:
        os.killpg(self.server.pid, signal.SIGTERM)
        self.server.wait()


class Mosquitto(Server):
    """Debian's; sessions and what waits in them are on its disk when it has ended."""

    def __init__(self, folder: Path, *settings: str) -> None:
        needed("mosquitto", "paho.mqtt", "mqtt")
        self._settings = settings or ("allow_anonymous true",)
        super().__init__(folder, "mosquitto", "-c", "{folder}/mosquitto.conf")

    def start(self) -> None:
        own = "persistence true", f"persistence_location {self.folder}/", "max_queued_messages 0"
        root = ("user root",) if os.geteuid() == 0 else ()
        lines = *root, f"listener {self.port} 127.0.0.1", *own, *self._settings
        (self.folder / "mosquitto.conf").write_text("\n".join(lines) + "\n")
        super().start()

    def publish(self, topic: str, bodies: Sequence[bytes]) -> None:
        import paho.mqtt.client as mqtt

        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        for sent in [client.publish(topic, body, qos=1) for body in bodies]:
            sent.wait_for_publish(PATIENCE_S)
            assert sent.is_published()
        client.disconnect()
        client.loop_stop()

    def came(self, topic: str) -> list[Any]:
        """The messages since the last call, in a session that the first call begins."""
        import paho.mqtt.client as mqtt
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        came: list[Any] = []
        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, f"reader-{topic}", protocol=mqtt.MQTTv5)
        client.on_connect = lambda *_: client.subscribe(topic, qos=1)
        client.on_subscribe = lambda *_: client.publish(topic, LAST, qos=1)  # behind what is there
        client.on_message = lambda _, __, message: came.append(message)
        keeps = Properties(PacketTypes.CONNECT)
        keeps.SessionExpiryInterval = 3600
        client.connect("127.0.0.1", self.port, clean_start=False, properties=keeps)
        until_s = time.monotonic() + PATIENCE_S
        while not came or came[-1].payload != LAST:
            assert time.monotonic() < until_s, "it did not come"
            client.loop(0.05)
        client.disconnect()
        return came[:-1]


class RabbitMq:
    """Debian's, with a port mapper of its own, all on loopback. To start takes five seconds of CPU, so a process of
    tests has one, and each place in it a queue of its own."""

    def __init__(self, folder: Path) -> None:
        program = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
        if not program.exists():
            pytest.skip("rabbitmq-server is not installed; make setup-brokers installs it")
        pytest.importorskip("pika", reason="pika is not installed; it is in extra rabbitmq")
        self.folder, self.port, mapper, nodes = folder, free_port(), free_port(), free_port()
        settings = [f"listeners.tcp.1 = 127.0.0.1:{self.port}", "log.console = true", "log.console.level = error"]
        (folder / "rabbitmq.conf").write_text("\n".join(settings) + "\n")
        (folder / "enabled_plugins").write_text("[].\n")
        few = "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}"
        self._program = str(program)
        self._environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(folder),
            "ERL_EPMD_PORT": str(mapper),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_CRASH_DUMP_BYTES": "0",
            "RABBITMQ_NODENAME": f"r{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(nodes),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": few,
        }
        self._mapper = subprocess.Popen(["epmd", "-address", "127.0.0.1", "-port", str(mapper)])
        self.start()

    def start(self) -> None:
        how = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
        self.server = subprocess.Popen([self._program], env=self._environment, **how)
        wait_until(lambda: self.server.poll() is not None or answers(self.port), 120.0)
        assert self.server.poll() is None, "rabbitmq-server has ended"

    def end(self) -> None:
        os.killpg(self.server.pid, signal.SIGTERM)
        self.server.wait()
        self._mapper.terminate()
        self._mapper.wait()

    def publish(self, queue: str, bodies: Sequence[bytes], what: str = "queue") -> None:
        """Each with an id of its own."""
        import pika

        with self._connected() as channel:
            channel.queue_declare(queue, durable=True, arguments={"x-queue-type": what} if what == "stream" else None)
            channel.confirm_delivery()
            for body in bodies:
                properties = pika.BasicProperties(delivery_mode=2, message_id=uuid.uuid4().hex)
                channel.basic_publish("", queue, body, properties)

    def drop(self, queue: str) -> None:
        with self._connected() as channel:
            channel.queue_delete(queue)

    def messages(self, queue: str) -> list[tuple[Any, bytes]]:
        """Properties and body of each, which stay there; none where the queue is not there."""
        import pika

        found: list[tuple[Any, bytes]] = []
        try:
            with self._connected() as channel:
                while (got := channel.basic_get(queue))[0] is not None:
                    found.append((got[1], got[2]))
        except pika.exceptions.ChannelClosedByBroker:
            pass
        return found

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        import pika

        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port))
        try:
            yield connection.channel()
        finally:
            connection.close()


class RabbitPlace(Place):
    """A queue with a name of its own."""

    kind, shared, what = "rabbitmq", True, "queue"

    def __init__(self, server: RabbitMq) -> None:
        self.server, self.down = server, Relay(server.port)
        self.name = f"numbers-{uuid.uuid4().hex}"
        self.path = f"amqp://127.0.0.1:{self.down.port}/?{self.what}={self.name}"

    def put(self, bodies: Sequence[bytes]) -> None:
        self.server.publish(self.name, bodies, self.what)

    def close(self) -> None:
        super().close()
        self.server.drop(self.name)
