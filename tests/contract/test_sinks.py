"""Places for results, all to one contract: in order, once, for the epoch that has the run. Servers are real."""

import json
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from servers import maker
from sink_places import PLACES, AFolderOfParquet, ARedis, AWebhook, SinkPlace, There, as_read

from apps.contract import App, Outputs
from compositions.errors import RecomposeError
from compositions.model import Stage, StageKind
from datapipe.sink_kinds import KINDS, Opening
from datapipe.sinks.port import AT_ONCE, Row
from service.runner.rpc.requests import PushMany, ReadStatus, Start, Stop
from service.runner.runner import Runner
from service.runner.wiring import sink as sink_writer
from service.schemas.spec import BatchingSpec, RunSpec, SinkSpec, SourceSpec
from tests.support.waiting import wait_until


@pytest.fixture(scope="module", params=sorted(PLACES))
def make_place(request: pytest.FixtureRequest) -> Callable[[Path], SinkPlace]:
    return maker(request, PLACES)


def numbered(first: int, until: int, value: Any = 1) -> list[Row]:
    return [Row(serial, None, json.dumps(value), None) for serial in range(first, until)]


def as_there(rows: Sequence[Row]) -> list[There]:
    return [as_read(*row) for row in rows]


def test_every_kind_is_held_to_it() -> None:
    assert sorted(PLACES) == sorted(KINDS)


def test_what_is_written_is_there_in_order_with_its_parts_and_errors(place: SinkPlace) -> None:
    sink = place.open(1)
    assert sink.begin(0, 0) == 0
    rows = [*numbered(0, 2, "ä"), Row(2, 0, "{}", None), Row(2, 1, "[1]", None), Row(3, None, None, "it broke")]
    sink.write(4, rows)
    sink.write(5, [])
    sink.write(7, numbered(5, 7))
    sink.close()
    assert place.there() == as_there([*rows, *numbered(5, 7)])


@pytest.mark.parametrize(
    "middle", ["\n  File 'a.py', line 1\n", "\ttab\0nul\x85 \ufffe ", "x" * 200_000], ids=["lines", "signs", "much"]
)
def test_an_error_is_told_whatever_it_says(place: SinkPlace, middle: str) -> None:
    sink = place.open(1)
    sink.begin(0, 0)
    sink.write(2, [Row(0, None, None, f"Traceback {middle} it broke"), Row(1, None, "1", None)])
    sink.close()
    (serial, _, value, error), after = place.there()
    assert (serial, value, after) == (0, None, as_read(1, None, "1", None))
    assert (error.split()[0], error.split()[-2:]) == ("Traceback", ["it", "broke"])


def test_a_write_whose_answer_was_lost_is_there_once(place: SinkPlace) -> None:
    sink = place.open(1)
    sink.begin(0, 0)
    for _ in range(3):
        sink.write(2, numbered(0, 2))
    sink.write(3, numbered(2, 3))
    sink.close()
    assert place.there() == as_there(numbered(0, 3))


def test_another_epoch_goes_on_where_the_one_before_was(place: SinkPlace) -> None:
    old, new = place.open(1), place.open(2)
    old.begin(0, 0)
    old.write(4, numbered(0, 4))
    assert new.begin(6, 4) == 4, "what left and is not there is wanted"
    new.write(6, numbered(4, 6))
    old.close()
    new.close()
    assert place.there() == as_there(numbered(0, 6))


def test_who_was_followed_writes_nothing_and_what_comes_again_is_forgotten(place: SinkPlace) -> None:
    if not place.shuts_out:
        pytest.skip(f"{place.kind} can shut nobody out: its keys tell doubles")
    old, new, other, later = place.open(1), place.open(2), place.open(1, run="other"), place.open(1)
    old.begin(0, 0)
    old.write(2, numbered(0, 2))
    other.begin(0, 0)
    old.write(6, numbered(2, 6))
    assert new.begin(3, 3) == 3
    for late in (lambda: old.write(8, numbered(6, 8)), lambda: old.begin(0, 0), lambda: later.begin(9, 9)):
        with pytest.raises(RecomposeError, match="another runner has taken over run r; this one may not write any"):
            late()
    again = [] if place.forgets else numbered(3, 6)
    assert place.there() == as_there([*numbered(0, 3), *again])
    new.write(5, numbered(3, 5, 2))
    other.write(1, numbered(0, 1, 3))
    for sink in (old, new, other, later):
        sink.close()
    assert sorted(place.there()) == sorted(as_there([*numbered(0, 3), *again, *numbered(3, 5, 2), *numbered(0, 1, 3)]))


def test_a_server_that_is_away_is_told_and_written_to_when_it_is_back(place: SinkPlace) -> None:
    sink = place.open(1)
    sink.begin(0, 0)
    sink.write(2, numbered(0, 2))

    def cannot_be_written() -> None:
        with pytest.raises(OSError, match=r"cannot be written|does not answer"):
            sink.write(4, numbered(2, 4))

    place.restart(cannot_be_written)
    sink.write(4, numbered(2, 4))
    sink.close()
    assert place.there() == as_there(numbered(0, 4))


class Steps(App):
    """Sums, each with its number; nothing of every third item."""

    name = "steps"
    stages = (Stage("add", StageKind.STATEFUL),)
    go_on = threading.Event()

    def add(self, value: int, state: int | None) -> tuple[Any, int]:
        if value == 8:
            assert self.go_on.wait(30.0)
        total = (state or 0) + value
        return Outputs([value, total] if value % 3 else []), total


@pytest.mark.logs_errors("has taken over run r", "results could not be written to the sink")
@pytest.mark.parametrize("durability", ["restart", "exactly-once"])
def test_each_result_of_a_run_is_there_once_whoever_ran_it(
    place: SinkPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str
) -> None:
    monkeypatch.setattr("apps.registry.create", lambda *_: Steps())
    monkeypatch.setattr(Steps, "go_on", threading.Event())
    monkeypatch.setattr(sink_writer, "END_S", 1.0)
    monkeypatch.setattr("datapipe.sinks.parquet_files.ParquetFiles.gather", AT_ONCE)
    how: dict[str, Any] = {"source": SourceSpec(kind="push"), "sink": SinkSpec(kind=place.kind, path=place.path)}
    how |= {"pool": "local", "batching": BatchingSpec(items=1)}  # what waits holds up nothing before it
    once = not place.forgets and durability == "restart"
    found = (lambda: list(dict.fromkeys(place.there()))) if once else place.there
    runners = []
    for epoch in (1, 2):
        spec = RunSpec(app="steps", run="r", epoch=epoch, durability=durability, journals=str(tmp_path / "j"), **how)
        runners.append(Runner(spec))
        runners[-1].ask(Start())
        if epoch == 1:
            runners[0].ask(PushMany(tuple(range(12))))
            wait_until(lambda: len(found()) == 10)
    Steps.go_on.set()
    runners[1].ask(PushMany(tuple(range(12, 20))))
    wait_until(lambda: len(found()) == 26)
    runners[1].ask(Stop(drain=True, timeout_s=30.0))
    runners[0].kill()
    assert runners[1].ask(ReadStatus()).health.failure is None
    expected = [(n, part, each, None) for n in range(20) if n % 3 for part, each in enumerate((n, n * (n + 1) // 2))]
    assert found() == expected


@pytest.mark.parametrize(
    ("kind", "path", "said"),
    [
        ("redis", "redis://:secret@h:1/0", "names no stream; give redis://HOST:6379/0?stream=NAME"),
        ("redis", "redis://:secret@h:port/0?stream=a", "is no URL; give redis://HOST:6379/0?stream=NAME"),
        ("webhook", "ftp://me:secret@h/x", "is no URL; give https://HOST/PATH"),
        ("kafka", "kafka://[secret", "is no URL; give kafka://HOST:9092/TOPIC"),
        ("kafka", "kafka://me:secret@h:9092/a", "names no broker and topic; give kafka://HOST:9092/TOPIC"),
        ("nats", "nats://me:secret@h:4222", "names no server and stream; give nats://HOST:4222/STREAM"),
        ("mqtt", "mqtt://me:secret@h", "names no broker and topic; give mqtt://HOST:1883/TOPIC"),
        ("mqtt", "mqtt://me:secret@h/a/#", "cannot write to 'a/#': only readers may have + and # in a topic"),
        (
            "rabbitmq",
            "amqp://me:secret@h/?queue=a&exchange=b",
            "must name one broker and one queue or exchange; give amqp",
        ),
        ("rabbitmq", "amqp://h/?topic=secret", "has a parameter 'topic'; accepted are queue, exchange, routing_key"),
        ("webhook", "https://.../", "is no URL; give https://HOST/PATH"),
        ("webhook", f"https://{'a' * 64}.org/", "is no URL; give https://HOST/PATH"),
        ("parquet", "s3://KEY:secret@bucket", "needs a folder that renames files atomically"),
        ("parquet", "secret\0", "needs a folder"),
        ("sql", "mysql://me:secret@host:port/db", "is no URL of a database"),
        ("sql", "nonsense+x://me:secret@host/db", "is no URL of a database"),
    ],
)
def test_a_place_that_cannot_be_is_refused_in_a_sentence(kind: str, path: str, said: str) -> None:
    with pytest.raises(RecomposeError) as refused:
        KINDS[kind].open(Opening(path, "r", 1, {}))
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)


def test_who_is_followed_in_the_middle_of_its_beginning_removes_nothing(tmp_path: Path) -> None:
    place = AFolderOfParquet(tmp_path)
    first, old, new = place.open(1), place.open(2), place.open(3)
    first.begin(0, 0)
    first.write(2, numbered(0, 2))
    shuts_out = old._shut_out  # type: ignore[attr-defined]  # nothing else stops it there

    def and_is_followed() -> None:
        shuts_out()
        new.begin(2, 2)
        new.write(4, numbered(2, 4))

    old._shut_out = and_is_followed  # type: ignore[attr-defined]
    with pytest.raises(RecomposeError, match="another runner has taken over run r"):
        old.begin(2, 2)
    assert place.there() == as_there(numbered(0, 4))


def test_of_parquet_files_the_last_alone_is_read_at_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = AFolderOfParquet(tmp_path)
    old, new = place.open(1), place.open(2)
    old.begin(0, 0)
    for serial in range(0, 50, 2):
        old.write(serial + 2, numbered(serial, serial + 2))
    read: list[Path] = []
    metadata = parquet.read_metadata
    monkeypatch.setattr(parquet, "read_metadata", lambda path: read.append(path) or metadata(path))
    assert new.begin(41, 41) == 41
    assert [each.name for each in read] == ["r-000000000000040-000001.parquet"]
    assert place.there() == as_there(numbered(0, 41))


def test_redis_takes_an_item_of_more_values_than_a_command_has_words(tmp_path: Path) -> None:
    place = ARedis(tmp_path)
    sink = place.open(1)
    sink.begin(0, 0)
    rows = [Row(0, part, f'{{"ä": {part}}}', None) for part in range(150_000)]
    sink.write(1, rows)
    sink.close()
    read = place.server.client
    (_, last), count = read.xrevrange("results", count=1)[0], read.xlen("results")
    assert (count, last["part"], last["value"]) == (150_000, "149999", '{"ä": 149999}')
    place.close()


def test_a_redis_that_refuses_the_user_is_not_asked_again_and_again(tmp_path: Path) -> None:
    place = ARedis(tmp_path)
    place.server.client.config_set("requirepass", "sesame")
    place.server.client.execute_command("AUTH", "sesame")
    host = f"127.0.0.1:{place.server.port}"
    for path in (f"redis://{host}/0", f"redis://:wrong@{host}/0", f"redis://:sesame@{host}/99"):
        with pytest.raises(RecomposeError, match="sink redis cannot be written") as refused:
            KINDS["redis"].open(Opening(f"{path}?stream=a", "r", 1, {})).begin(0, 0)
        assert not re.search("wrong|sesame", str(refused.value))
    place.close()


@pytest.mark.parametrize("authorization", ["Bearer secret\n", " Bearer secret", "Bearer sécret", "secret\0", ""])
def test_an_authorization_that_is_no_header_is_refused_without_saying_it(authorization: str) -> None:
    with pytest.raises(RecomposeError, match="give one line of printable ASCII") as refused:
        KINDS["webhook"].open(Opening("https://h/x", "r", 1, {"authorization": authorization}))
    assert "secret" not in str(refused.value)


def test_the_url_of_a_webhook_is_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    place = AWebhook(tmp_path)
    place.path += "?token=secret"
    sink = place.open(1)
    sink.write(1, numbered(0, 1))
    sink.close()
    place.close()
    assert place.calls == 1
    assert "secret" not in caplog.text
