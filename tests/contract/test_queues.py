"""Places that forget what was acknowledged, all to one contract: in order, nothing lost, and nothing again but what was
not acknowledged. Servers are real."""

import json
import math
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from plain_numbers import Numbers, bodies, source_of
from runners import Process
from servers import Mosquitto, Place, RabbitMq, RabbitPlace, maker

from compositions.errors import RecomposeError
from datapipe.brokers.mqtt import source as mqtt_source
from datapipe.brokers.mqtt.calls import Line, address_of
from datapipe.brokers.mqtt.source import MqttBox
from datapipe.brokers.rabbitmq.source import opened as rabbitmq_feed
from datapipe.sink_kinds import KINDS as SINKS
from datapipe.sink_kinds import Opening
from datapipe.sinks.port import Row, Sink
from datapipe.source_kinds import open_source
from datapipe.sources.fed import MOST, Fed
from datapipe.sources.inbox import Inbox, Letter
from datapipe.sources.portions import Refused
from service.runner.rpc.requests import PushMany, ReadResults, ReadStatus, Start
from service.runner.runner import Runner
from service.schemas.spec import RunSpec, SourceSpec
from tests.support.waiting import wait_until


class ATopic(Place):
    kind = "mqtt"

    def __init__(self, folder: Path) -> None:
        self.server = self.down = Mosquitto(folder)
        self.path = f"mqtt://127.0.0.1:{self.server.port}/numbers/%2B"

    def put(self, bodies: Sequence[bytes]) -> None:
        self.server.publish("numbers/a", bodies)


PLACES = {each.kind: each for each in (ATopic, RabbitPlace)}


@pytest.fixture(scope="module", params=PLACES)
def make_place(request: pytest.FixtureRequest) -> Callable[[Path], Place]:
    return maker(request, PLACES)


def end(source: Inbox) -> None:
    source.close()
    while source.read(MOST, math.inf) is not None:
        pass


def read(source: Inbox, count: int) -> list[int]:
    values: list[int] = []
    while len(values) < count:
        portion = source.read(7, math.inf)
        values += portion.values
    return values


def listening(place: Place) -> Inbox:
    """A queue keeps what comes while nobody is there, a topic once its session has begun."""
    source = source_of(place)
    if place.kind == "mqtt":
        assert not source.at_hand(time.monotonic())
        wait_until(lambda: source.is_open)
    return source


def test_what_is_put_comes_in_order_and_what_was_acknowledged_never_again(place: Place) -> None:
    source = listening(place)
    place.put(bodies(range(5)))
    place.put(bodies(range(5, 12)))
    assert read(source, 12) == list(range(12))
    end(source)
    place.put(bodies(range(12, 15)))
    again = source_of(place)
    assert read(again, 3) == [12, 13, 14]
    end(again)


def test_what_could_not_be_stored_comes_again(place: Place) -> None:
    """As though the runner had died before it was."""
    source = listening(place)
    place.put(bodies(range(3)))
    assert read(source, 3) == [0, 1, 2]
    end(source)
    place.put(bodies(range(3, 30)))
    dies = source_of(place)

    def stores_nothing(*_: object) -> None:
        raise RecomposeError("another runner has taken over run r")

    dies.by_way_of(stores_nothing)
    with pytest.raises(RecomposeError, match="another runner has taken over run r"):
        dies.read(1, math.inf)
    again = source_of(place)
    assert read(again, 27) == list(range(3, 30))
    end(again)


def test_what_the_app_does_not_take_has_its_place_and_never_comes_again(place: Place) -> None:
    source = listening(place)
    place.put([b"1", b"no json", b'"text"', b"\xff", b"[" * 2000 + b"]" * 2000, b"2"])
    values = read(source, 6)
    assert [value for value in values if not isinstance(value, Refused)] == [1, 2]
    wait_until(lambda: source.refused == 4)
    end(source)
    place.put([b"3"])
    again = source_of(place)
    assert (read(again, 1), again.refused) == ([3], 0)
    end(again)


def test_no_more_is_taken_than_there_is_room_for(place: Place) -> None:
    source = listening(place)
    place.put(bodies(range(2 * MOST)))
    values = read(source, 1)
    wait_until(lambda: source.buffer.waiting >= MOST - 7)
    for _ in range(20):  # looks of its thread, which takes nothing while there is no room
        assert source.buffer.waiting <= MOST
        time.sleep(0.01)
    assert read(source, 2 * MOST - len(values))[-1] == 2 * MOST - 1
    end(source)


def test_a_server_that_is_away_is_asked_again(place: Place) -> None:
    source = listening(place)
    place.put(bodies(range(5)))
    assert read(source, 5) == list(range(5))
    place.restart(lambda: time.sleep(0.3))
    place.put(bodies(range(5, 10)))
    assert read(source, 5) == list(range(5, 10))
    end(source)


def test_what_was_stored_while_the_server_was_away_is_there_once(place: Place) -> None:
    """It could not be acknowledged, and is sent again."""
    source = listening(place)
    stores = source._store
    cut = []

    def stores_slowly(plains: tuple[Any, ...], arrivals: Any) -> None:
        if 3 in plains and not cut:
            cut.append(place.restart())
        stores(plains, arrivals)

    source.by_way_of(stores_slowly)
    place.put(bodies(range(8)))
    assert read(source, 8) == list(range(8))
    place.put(bodies([8]))
    assert read(source, 1) == [8]
    end(source)


def ends_with(runner: Runner, last: int) -> bool:
    return [row.value for row in runner.ask(ReadResults(None, 1000))][-1:] == [last]


@pytest.mark.parametrize("durability", ["restart", "exactly-once"])
def test_a_run_goes_on_where_the_runner_before_it_was(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str
) -> None:
    monkeypatch.setattr("apps.registry.create", lambda *_: Numbers())
    end(listening(place))
    how = {"source": SourceSpec(kind=place.kind, path=place.path), "durability": durability, "pool": "local"}
    runners = []
    for epoch in (1, 2):
        for before in runners:
            before.kill()
            wait_until(lambda: "inbox" not in {thread.name for thread in threading.enumerate()})  # it takes what comes
        place.put(bodies(range(20 * epoch - 20, 20 * epoch)))
        runner = Runner(RunSpec(app="numbers", run="r", epoch=epoch, journals=str(tmp_path / "journals"), **how))
        runners.append(runner)
        runner.ask(Start())
        wait_until(partial(ends_with, runner, 20 * epoch - 1))
    rows = runners[-1].ask(ReadResults(None, 1000))
    first = rows[0].serial
    assert first == 0 if durability == "exactly-once" else first <= 20
    assert [(row.serial, row.value) for row in rows] == [(number, number) for number in range(first, 40)]
    status = runners[-1].ask(ReadStatus())
    assert (status.origin.epoch, status.health.failure) == (2, None)
    with pytest.raises(RecomposeError, match=f"reads its items from source '{place.kind}'"):
        _ = runners[-1].ask(PushMany((7,))).serial
    runners[-1].kill()


def items_of(table: Path) -> list[int]:
    """In the order of their serial numbers."""
    with closing(sqlite3.connect(table)) as db:
        try:
            found = db.execute("SELECT value FROM recompose_results ORDER BY serial").fetchall()
        except sqlite3.OperationalError:  # nothing yet
            return []
    return [json.loads(value)["item"] for (value,) in found]


def test_a_runner_that_is_killed_takes_no_message_along(place: Place, tmp_path: Path) -> None:
    if place.kind == "mqtt":
        place.options = {"client_id": "tests"}  # whose session begins before the runner
    end(listening(place))
    place.put(bodies(range(60)))
    source = {"kind": place.kind, "path": place.path, "options": place.options}
    how = {"source": source, "options": {"compute": "wait", "total_ms": 50}}  # there is a middle of its work
    table = tmp_path / "results.db"
    killed = Process(1, tmp_path / "journals", "sql", f"sqlite:///{table}", **how)
    wait_until(lambda: len(items_of(table)) >= 1)
    killed.end()
    assert len(items_of(table)) < 60, "it was killed too late"
    follows = Process(2, tmp_path / "journals", "sql", f"sqlite:///{table}", **how)
    try:
        place.put(bodies([60]))
        wait_until(lambda: 60 in items_of(table))
    finally:
        follows.end()
    assert list(dict.fromkeys(items_of(table))) == list(range(61)), "some may come again, none before one it was behind"


def test_who_hears_that_another_has_its_session_ends_instead_of_taking_it_back() -> None:
    """A broker says so; Debian's only hangs up."""
    pytest.importorskip("paho.mqtt", reason="paho-mqtt is not installed; it is in extra mqtt")
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.reasoncodes import ReasonCode

    line = Line(address_of("mqtt://h/a", "source mqtt"), "source mqtt")
    line._disconnected(None, None, None, ReasonCode(PacketTypes.DISCONNECT, identifier=142), None)
    with pytest.raises(RecomposeError, match="another client with its client_id has taken over its session"):
        line.move(0.0)


def refused(kind: str, path: str) -> str:
    """What ends a source there, and not a try that is followed by another."""
    source = open_source(Numbers(), kind, path, clock=time.monotonic)
    with pytest.raises(RecomposeError) as said:
        source.read(1, math.inf)
    if isinstance(source, Fed):
        source.close()
        source.read(1, math.inf)
    assert "secret" not in str(said.value)
    return str(said.value)


def begun_and_written(sink: Sink, value: str) -> None:
    sink.begin(0, 0)
    sink.write(1, [Row(0, None, value, None)])


def refused_sink(kind: str, path: str, value: str = "1") -> str:
    sink = SINKS[kind].open(Opening(path, "r", 1, {}))
    with pytest.raises(RecomposeError) as said:
        begun_and_written(sink, value)
    sink.close()
    assert "secret" not in str(said.value)
    return str(said.value)


def test_a_broker_of_mqtt_that_lets_nobody_in_and_what_is_too_large_for_it_is_told(tmp_path: Path) -> None:
    strict = Mosquitto(tmp_path, "allow_anonymous false")
    path = f"mqtt://me:secret@127.0.0.1:{strict.port}/a"
    said = "127.0.0.1 refuses the connection: Not authorized"
    assert refused("mqtt", path) == f"source mqtt: {said}"
    assert refused_sink("mqtt", path) == f"sink mqtt: {said}"
    strict.end()
    small = Mosquitto(tmp_path, "allow_anonymous true", "message_size_limit 1000")
    said = refused_sink("mqtt", f"mqtt://127.0.0.1:{small.port}/a", json.dumps("x" * 2000))
    small.end()
    assert said == "sink mqtt: 127.0.0.1 has ended the connection: Protocol error", "all that this one says of a size"


def test_what_rabbitmq_refuses_is_told(rabbitmq: RabbitMq) -> None:
    host = f"127.0.0.1:{rabbitmq.port}"
    assert "ACCESS_REFUSED - Login was refused" in refused("rabbitmq", f"amqp://me:secret@{host}/?queue=a")
    assert "ACCESS_REFUSED - Login was refused" in refused_sink("rabbitmq", f"amqp://me:secret@{host}/?queue=a")
    assert "vhost nowhere not found" in refused("rabbitmq", f"amqp://{host}/nowhere?queue=a")
    assert "has no exchange 'nowhere'" in refused_sink("rabbitmq", f"amqp://{host}/?exchange=nowhere&routing_key=a")
    nobody = refused_sink("rabbitmq", f"amqp://{host}/?exchange=amq.direct&routing_key=a")
    assert nobody == "sink rabbitmq: no queue is bound to key 'a': NO_ROUTE"
    rabbitmq.publish("kept", [b"1"], "stream")
    rabbitmq.publish("plain", [b"1"])
    assert "cannot read 'plain': PRECONDITION_FAILED" in refused("rabbitmq", f"amqp://{host}/?stream=plain")
    source = open_source(Numbers(), "rabbitmq", f"amqp://{host}/?queue=kept", clock=time.monotonic)
    assert not source.at_hand(time.monotonic())
    wait_until(lambda: source.is_open)
    rabbitmq.publish("kept", [b"2"], "stream")
    with pytest.raises(RecomposeError, match=r"'kept' is a stream; give \?stream=kept"):
        source.read(1, math.inf)
    rabbitmq.drop("kept")
    rabbitmq.drop("plain")


def test_a_queue_that_is_not_there_yet_is_asked_for_again(rabbitmq: RabbitMq) -> None:
    place = RabbitPlace(rabbitmq)
    source = source_of(place)
    assert not source.at_hand(time.monotonic())
    place.put(bodies([1]))
    assert read(source, 1) == [1]
    end(source)
    place.close()


def test_what_limits_of_a_stream_dropped_before_it_was_read_is_told(rabbitmq: RabbitMq) -> None:
    feed = rabbitmq_feed(f"amqp://127.0.0.1:{rabbitmq.port}/?stream=a", {})
    feed._next = 3
    with pytest.raises(RecomposeError, match="stream 'a' has dropped 3 to 6, which were not read; start a new run"):
        feed._look_for_gap(7)
    with pytest.raises(RecomposeError, match="was created again, without message 3; start a new run"):
        feed._look_for_gap(2)


def publish(dup: bool, payload: bytes, qos: int = 1) -> Any:
    """As the library hands it over."""
    return SimpleNamespace(dup=dup, payload=payload, mid=7, topic="a", qos=qos)


@pytest.mark.parametrize(
    ("came", "taken"),
    [
        ([(False, b"1"), (True, b"1")], [b"1"]),
        ([(False, b"1"), (True, b"2")], [b"1", b"2"]),
        ([(False, b"1"), (False, b"1"), (True, b"1")], [b"1", b"1", b"1"]),
    ],
    ids=["sent again", "another one", "identifiers are given anew at once"],
)
def test_a_message_is_known_again_by_its_identifier(came: list[tuple[bool, bytes]], taken: list[bytes]) -> None:
    """Its acknowledgement was given, and may be lost."""
    pytest.importorskip("paho.mqtt", reason="paho-mqtt is not installed; it is in extra mqtt")
    box, found = MqttBox("mqtt://h/a", {}, "numbers"), []
    for dup, payload in came:
        box._message(None, None, publish(dup, payload))
        box.acknowledge(list(box._came))
        found += [letter.body for letter in box._came]
        box._came.clear()
    assert found == taken


def test_what_no_broker_holds_back_does_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("paho.mqtt", reason="paho-mqtt is not installed; it is in extra mqtt")
    monkeypatch.setattr(mqtt_source, "MOST_UNANSWERED", 2)
    box = MqttBox("mqtt://h/a", {}, "numbers")
    for payload in (b"1", b"2", b"3"):
        box._message(None, None, publish(False, payload, qos=0))
    assert [letter.body for letter in box._came] == [b"1", b"2"]
    box._came.clear()
    box._message(None, None, publish(False, b"4", qos=0))
    assert [letter.body for letter in box._came] == [b"4"]


def test_who_stops_while_messages_are_taken_is_not_kept_waiting_for_them() -> None:
    letters = [Letter("here", b"%d" % number, number) for number in range(3)]
    box, times = MagicMock(**{"poll.return_value": letters}), count()

    def closes_at_the_second() -> float:
        if (now := next(times)) == 1:
            source.close()
        return float(now)

    source, found = Inbox(Numbers(), box, closes_at_the_second), list[Any]()
    reader = threading.Thread(target=lambda: found.append(source.read(10, math.inf)), daemon=True)
    reader.start()
    reader.join(30.0)
    assert found == [None], "reading ends, and nothing was taken"
    assert not box.acknowledge.called


def test_a_message_of_a_queue_is_known_again_by_its_id_and_its_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publishers may give a kind as the id; another consumer may have given back what is before it in the queue."""
    pytest.importorskip("pika", reason="pika is not installed; it is in extra rabbitmq")
    box, acknowledged = rabbitmq_feed("amqp://127.0.0.1/?queue=a", {}), list[tuple[int, bool]]()
    monkeypatch.setattr(box._line, "acknowledge", lambda tag, alone=False: acknowledged.append((tag, alone)))
    monkeypatch.setattr(box._line, "move", lambda _: None)

    def letters_of(*came: tuple[int, bool, bytes]) -> Any:
        for tag, redelivered, body in came:
            delivered = SimpleNamespace(redelivered=redelivered, delivery_tag=tag)
            box._line._message(None, delivered, SimpleNamespace(headers=None, message_id="order"), body)
        return box.poll(9, 0.0)

    first = letters_of((1, False, b"1"))
    box.acknowledge(first)
    later = letters_of((2, True, b"2"), (3, True, b"1"))
    assert [letter.body for letter in [*first, *later]] == [b"1", b"2"]
    assert acknowledged == [(1, False), (3, True)], "alone: the one before it is not stored yet"
    box.acknowledge(later)
    assert acknowledged[-1] == (2, False)
