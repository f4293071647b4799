"""Places that others fill, all to one contract: read in order, from positions, on after trouble. Servers are real."""

import gc
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from plain_numbers import Numbers, bodies, source_of
from servers import NatsServer, Place, RabbitPlace, RedisServer, maker

from compositions.errors import RecomposeError
from datapipe.sources.fed import MOST, Fed
from datapipe.sources.portions import Position, Refused
from service.runner.rpc.requests import ReadResults, ReadStatus, Start
from service.runner.runner import Runner
from service.schemas.spec import RunSpec, SourceSpec
from tests.support.waiting import wait_until


class AFolder(Place):
    kind = "folder"

    def __init__(self, folder: Path) -> None:
        self.folder, self.files = folder / "in", 0
        self.folder.mkdir()
        self.path = str(self.folder)

    def put(self, bodies: Sequence[bytes]) -> None:
        aside = self.folder / ".aside"
        aside.write_bytes(b"".join(body + b"\n" for body in bodies))
        aside.rename(self.folder / f"{self.files:04d}.jsonl")
        self.files += 1


class ARedis(Place):
    kind = "redis"

    def __init__(self, folder: Path) -> None:
        self.server = self.down = RedisServer(folder)
        self.path = f"redis://127.0.0.1:{self.server.port}/0?stream=numbers"

    def put(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self.server.client.xadd("numbers", {"value": body})

    def close(self) -> None:
        self.server.close()


class AKafka(Place):
    kind = "kafka"

    def __init__(self, folder: Path) -> None:
        kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed; it is in extra kafka")
        self.producer = kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none"})
        broker = next(iter(self.producer.list_topics(timeout=10).brokers.values()))
        self.path = f"kafka://{broker.host}:{broker.port}/numbers"

    def put(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self.producer.produce("numbers", body, partition=0)
        assert self.producer.flush(10) == 0

    def close(self) -> None:
        del self.producer
        gc.collect()


class ANats(Place):
    kind = "nats"

    def __init__(self, folder: Path) -> None:
        self.server = self.down = NatsServer(folder)
        self.path = f"nats://127.0.0.1:{self.server.port}/numbers"

    def put(self, bodies: Sequence[bytes]) -> None:
        self.server.publish("numbers", bodies)


class ARabbitStream(RabbitPlace):
    what = "stream"


PLACES: dict[str, type[Any]] = {each.kind: each for each in (AFolder, AKafka, ANats, ARedis, ARabbitStream)}


@pytest.fixture(scope="module", params=PLACES)
def make_place(request: pytest.FixtureRequest) -> Callable[[Path], Place]:
    return maker(request, PLACES)


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[ANats]:
    made = ANats(tmp_path)
    yield made
    made.close()


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[ARedis]:
    made = ARedis(tmp_path)
    yield made
    made.close()


def opened(place: Place, positions: dict[str, Position] | None = None) -> Fed:
    source = source_of(place)
    source.seek(positions or {})
    return source


def end(*sources: Fed) -> None:
    for source in sources:
        source.close()
        assert source.read(1, math.inf) is None


def stop(*sources: Fed) -> None:
    """Of which some have something left."""
    for source in sources:
        source.close()
        source.read(1, math.inf)


def read(source: Fed, count: int) -> tuple[list[int], list[dict[str, Position]]]:
    """So many items, and behind each where the source goes on."""
    values: list[int] = []
    behind: list[dict[str, Position]] = [{}]
    while len(values) < count:
        portion = source.read(7, math.inf)
        values += portion.values
        for partition, position in portion.marks:
            behind.append(behind[-1] | {partition: position})
    return values, behind


def test_what_is_put_comes_in_order_and_again_from_every_position(place: Place) -> None:
    place.put(bodies(range(5)))
    place.put(bodies(range(5, 12)))
    source = opened(place)
    values, behind = read(source, 12)
    assert values == list(range(12))
    for done in (0, 1, 4, 5, 6, 11):
        again = opened(place, behind[done])
        assert read(again, 12 - done)[0] == list(range(done, 12))
        end(again)
    end(source)


def test_what_comes_later_is_waited_for_and_closing_ends_the_wait(place: Place) -> None:
    place.put(bodies([0]))
    source = opened(place)
    assert read(source, 1)[0] == [0]
    assert not source.at_hand(time.monotonic())
    place.put(bodies([1]))
    assert read(source, 1)[0] == [1]
    end(source)


def test_what_the_app_does_not_take_has_its_place_and_a_position(place: Place) -> None:
    deep = b"[" * 2000 + b"]" * 2000
    place.put([b"1", b"no json", b'"text"', b'{"m": 1}', deep, b'{"n": 2}', b"3"])
    source = opened(place)
    values, behind = read(source, 7)
    refused = [value for value in values if isinstance(value, Refused)]
    assert ([value for value in values if not isinstance(value, Refused)], source.refused) == ([1, 2, 3], 4)
    where = [each.why.partition("message (")[2].partition("):")[0] for each in refused]
    assert len(set(where)) == 4, "each says where it lies"
    again = opened(place, behind[5])
    assert read(again, 2)[0] == [2, 3]
    end(source, again)


def test_no_more_is_read_than_is_wanted_soon(place: Place) -> None:
    place.put(bodies(range(3 * MOST)))
    source = opened(place)
    values, _ = read(source, 1)
    assert len(source._ready) < MOST, "the rest stays where it is"
    assert read(source, 3 * MOST - len(values))[0][-1] == 3 * MOST - 1
    end(source)


def test_a_server_that_is_started_again_is_read_on(place: Place) -> None:
    place.put(bodies(range(5)))
    source = opened(place)
    assert read(source, 5)[0] == list(range(5))
    place.restart(lambda: time.sleep(0.3))  # reads fail meanwhile
    place.put(bodies(range(5, 10)))
    assert read(source, 5)[0] == list(range(5, 10))
    end(source)


def test_who_nats_dropped_begins_again_but_in_no_other_stream(nats: ANats, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datapipe.brokers.nats.source.QUIET_S", 0.1)
    nats.put([])
    source = opened(nats)
    assert not source.at_hand(time.monotonic() + 0.1), "a stream that never had a message has dropped none"
    nats.put(bodies(range(5)))
    assert read(source, 5)[0] == list(range(5))
    nats.server.drop_consumers("numbers")
    nats.put(bodies(range(5, 10)))
    assert read(source, 5)[0] == list(range(5, 10))
    nats.server.drop("numbers")
    nats.put(bodies(range(3)))
    with pytest.raises(RecomposeError, match="no longer has the next messages in stream 'numbers'"):
        read(source, 1)
    stop(source)


@pytest.mark.parametrize("on_gap", ["end", "go-on"])
def test_what_nats_drops_before_a_read_is_told(nats: ANats, capsys: pytest.CaptureFixture[str], on_gap: str) -> None:
    nats.options = {"on_gap": on_gap}
    nats.server.publish("numbers", bodies(range(5)), max_msgs=5)
    source = opened(nats)
    _, behind = read(source, 5)
    nats.server.publish("numbers", bodies(range(5, 20)), max_msgs=5)
    readers = source, opened(nats, behind[5])
    for reader in readers:
        if on_gap == "end":
            with pytest.raises(RecomposeError, match="'numbers' has dropped 6 to 15, which were not read; start a"):
                read(reader, 1)
        else:
            assert read(reader, 5)[0] == [15, 16, 17, 18, 19]
    assert capsys.readouterr().out.count("has dropped 6 to 15, which were not read") == (0 if on_gap == "end" else 2)
    stop(*readers)


def test_what_nats_keeps_too_few_of_by_subject_is_counted(nats: ANats, capsys: pytest.CaptureFixture[str]) -> None:
    """Such streams are for the latest of each subject, so it ends no run; two gaps in what one question brings."""
    for number, subject in enumerate(("numbers.a", "numbers.b", "numbers.b", "numbers.c", "numbers.c", "numbers.c")):
        nats.server.publish("numbers", bodies([number]), subject, max_msgs_per_subject=1)
    source = opened(nats)
    assert read(source, 3)[0] == [0, 2, 5]
    (told,) = (line for line in capsys.readouterr().out.splitlines() if "messages were dropped" in line)
    assert "keeps 1 messages per subject" in told
    assert "count=3" in told
    end(source)


def test_what_other_subjects_of_a_nats_stream_lose_ends_no_run(nats: ANats) -> None:
    nats.options = {"subject": "numbers.mine"}
    nats.server.publish("numbers", bodies([0]), "numbers.mine", max_msgs=5)
    source = opened(nats)
    behind = read(source, 1)[1]
    nats.server.publish("numbers", bodies(range(9)), "numbers.other", max_msgs=5)
    nats.server.publish("numbers", bodies([1]), "numbers.mine", max_msgs=5)
    again = opened(nats, behind[1])
    assert read(source, 1)[0] == read(again, 1)[0] == [1]
    end(source, again)


@pytest.mark.parametrize("on_gap", ["end", "go-on"])
def test_what_redis_trims_before_a_read_is_told(redis: ARedis, capsys: pytest.CaptureFixture[str], on_gap: str) -> None:
    redis.options = {"on_gap": on_gap}
    redis.put(bodies(range(8)))
    redis.server.client.xtrim("numbers", maxlen=5, approximate=False)
    source = opened(redis)
    values, behind = read(source, 5)
    assert values == [3, 4, 5, 6, 7], "what was trimmed before the run began is none of its"
    redis.put(bodies(range(8, 20)))
    redis.server.client.xtrim("numbers", maxlen=4, approximate=False)
    readers = source, opened(redis, behind[5]), opened(redis, behind[4])
    for reader, missing in zip(readers, (8, 8, 9), strict=True):
        said = f"'numbers' has dropped {missing} entries after .*, which were not read; start a"
        if on_gap == "end":
            with pytest.raises(RecomposeError, match=said):
                read(reader, 1)
        else:
            assert read(reader, 4)[0] == [16, 17, 18, 19]
    assert capsys.readouterr().out.count("has dropped 8 entries") == (0 if on_gap == "end" else 2)
    stop(*readers)


def test_what_redis_trims_behind_a_reader_that_stands_within_is_told(redis: ARedis) -> None:
    """Nor does the last read end where what was there ended."""
    redis.put(bodies(range(3 * MOST)))
    source = opened(redis)
    assert read(source, MOST)[0][-1] == MOST - 1
    redis.server.client.xtrim("numbers", maxlen=MOST - 1, approximate=False)
    with pytest.raises(RecomposeError, match=f"has dropped {MOST + 1} entries after"):
        read(source, 1)
    source.close()


@pytest.mark.parametrize("there", [True, False])
def test_what_redis_trims_behind_what_was_read_is_no_gap(redis: ARedis, there: bool) -> None:
    redis.options = {"trim": True}
    if there:
        redis.put(bodies(range(3)))
    source = opened(redis)
    if not there:
        assert not source.at_hand(time.monotonic())
        redis.put(bodies(range(3)))
    behind = read(source, 3)[1]
    source.commit(behind[3])
    redis.put(bodies(range(3, 6)))
    assert read(source, 3)[0] == [3, 4, 5]
    redis.server.client.delete("numbers")
    redis.put(bodies(range(6, 9)))
    again = opened(redis, behind[3])
    assert read(source, 3)[0] == read(again, 3)[0] == [6, 7, 8], "another stream of that name"
    end(source, again)


def test_what_is_deleted_of_a_redis_stream_ends_no_run(redis: ARedis, capsys: pytest.CaptureFixture[str]) -> None:
    redis.put(bodies(range(3)))
    source = opened(redis)
    read(source, 3)
    redis.put(bodies(range(3, 6)))
    ids = [each for each, _ in redis.server.client.xrange("numbers")]
    redis.server.client.xdel("numbers", *ids[:4])
    assert read(source, 2)[0] == [4, 5]
    assert "has dropped 1 entries after" in capsys.readouterr().out
    end(source)


def test_a_position_that_an_earlier_version_stored_is_one_to_go_on_from(redis: ARedis) -> None:
    redis.put(bodies(range(6)))
    ids = [each for each, _ in redis.server.client.xrange("numbers")]
    source = opened(redis, {"numbers": ids[2]})
    assert read(source, 3)[0] == [3, 4, 5]
    redis.put(bodies(range(6, 10)))
    redis.server.client.xtrim("numbers", maxlen=1, approximate=False)
    with pytest.raises(RecomposeError, match="has dropped 3 entries after"):
        read(source, 1)
    source.close()


@pytest.mark.parametrize(
    ("path", "said"), [("redis://:wrong@", "invalid"), ("redis://", "already authenticated|Authentication required")]
)
def test_a_password_that_redis_does_not_take_ends_the_run(redis: ARedis, path: str, said: str) -> None:
    redis.server.client.config_set("requirepass", "right")
    redis.path = redis.path.replace("redis://", path)
    with pytest.raises(RecomposeError, match=said):
        read(opened(redis), 1)
    redis.path = redis.path.replace(path, "redis://:right@")
    redis.put(bodies([1]))
    source = opened(redis)
    assert read(source, 1)[0] == [1]
    end(source)


def test_a_key_of_redis_that_is_no_stream_ends_the_run(redis: ARedis) -> None:
    redis.server.client.set("numbers", "text")
    with pytest.raises(RecomposeError, match="WRONGTYPE"):
        read(opened(redis), 1)


@pytest.mark.logs_errors("runner 2 has taken over run r")
def test_a_run_goes_on_where_its_last_runner_was(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.registry.create", lambda *_: Numbers())
    how = {"source": SourceSpec(kind=place.kind, path=place.path), "durability": "exactly-once", "pool": "local"}
    runners = []
    for epoch in (1, 2):
        place.put(bodies(range(20 * epoch - 20, 20 * epoch)))
        runner = Runner(RunSpec(app="numbers", run="r", epoch=epoch, journals=str(tmp_path / "journals"), **how))
        runners.append(runner)
        runner.ask(Start())
        wait_until(lambda: len(runners[-1].ask(ReadResults(None, 1000))) >= 20 * len(runners))
    rows = runners[-1].ask(ReadResults(None, 1000))
    assert [(row.serial, row.value) for row in rows] == [(number, number) for number in range(40)]
    assert runners[-1].ask(ReadStatus()).origin.epoch == 2
    for runner in runners:
        runner.kill()
