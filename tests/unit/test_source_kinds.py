"""One table of source kinds, and one start body: command line, scripts and checks take what these take. A source whose
place does not answer is told where people look, and once. Live Spark sources and sinks are checked before a start."""

import gc
import math
import time
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any, get_args
from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs

from apps import registry
from apps.contract import App
from apps.synthetic import Synthetic
from compositions.errors import RecomposeError
from compositions.model import Stage
from datapipe import sink_kinds
from datapipe.source_kinds import KINDS, PathMeans, open_source
from datapipe.sources import fed, inbox
from datapipe.sources.fed import Fed, Message
from datapipe.sources.inbox import Inbox, Letter
from datapipe.spark import session
from recompose.started import Settings, _source
from service.cli.run import run
from service.cli.start import start
from service.cli.texts import parse_sink, parse_source
from service.runner.rpc.requests import ReadStatus, Start
from service.runner.runner import Runner
from service.runner.validation.checked import open_link
from service.schemas.requests import StartRequest
from service.schemas.spec import RunSpec, SinkSpec, SourceSpec
from tests.support.waiting import eventually

BROKERS = {kind: f"{kind}://h/a" for kind in ("kafka", "nats", "mqtt")}
BROKERS |= {"redis": "redis://h/0?stream=a", "rabbitmq": "amqp://h/?queue=a"}


def test_the_start_body_knows_the_kinds_of_the_table() -> None:
    assert get_args(SourceSpec.model_fields["kind"].annotation) == tuple(KINDS)
    assert {field for kind in KINDS.values() for field in kind.own} <= set(SourceSpec.model_fields)


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_of_another_kind_is_refused_by_name(kind: str) -> None:
    others = {field for each in KINDS.values() for field in each.own if field not in KINDS[kind].own}
    needed = {KINDS[kind].needs: "csv"} if KINDS[kind].needs else {}
    assert SourceSpec.model_validate({"kind": kind, **needed}).fault is None
    for field in others:
        value = {"rows": 1} if field == "options" else "x"
        said = SourceSpec.model_validate({"kind": kind, **needed, field: value}).fault
        of_options = "kinds replay, spark, folder, redis, kafka, nats, mqtt and rabbitmq"
        owners = of_options if field == "options" else "kind spark"
        assert said == f"{field} is accepted with source {owners} only, not with {kind}"


@pytest.mark.parametrize("kind", [each for each in KINDS.values() if not each.driven], ids=lambda each: each.name)
def test_the_command_line_takes_every_kind_with_a_path_where_it_has_one(kind) -> None:
    assert parse_source(kind.name) == SourceSpec(kind=kind.name)
    if kind.path is not PathMeans.NOTHING:
        assert parse_source(f"{kind.name}:a:b").path == "a:b"


@pytest.mark.parametrize("url", ["mqtt://h/a/#", "mqtts://h/a", "amqp://h/?queue=a", "amqps://h/?queue=a"])
def test_a_url_says_by_its_scheme_what_kind_it_is_of(url: str) -> None:
    kind: Any = "mqtt" if url.startswith("mqtt") else "rabbitmq"
    assert parse_source(url) == _source(url) == SourceSpec(kind=kind, path=url)
    assert parse_sink(url) == SinkSpec(kind=kind, path=url)


def test_a_run_in_a_script_takes_a_kind_with_a_colon_and_a_path_without() -> None:
    assert _source(BROKERS["redis"]).kind == "redis"
    assert _source("folder:in") == SourceSpec(kind="folder", path="in")
    assert _source("folder") == SourceSpec(path="folder")


@pytest.mark.parametrize("kind", BROKERS)
def test_a_place_that_is_only_checked_leaves_nothing_to_close(kind: str) -> None:
    gc.collect()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ResourceWarning)
        source = open_source(registry.create("synthetic"), kind, BROKERS[kind], clock=time.monotonic)
        sink = sink_kinds.KINDS[kind].open(sink_kinds.Opening(BROKERS[kind], "r", 1, {}))  # type: ignore[index]
        del source, sink
        gc.collect()
    assert [str(each.message) for each in said] == []


@pytest.mark.parametrize(
    ("kind", "path", "options", "said"),
    [
        ("folder", "/nowhere", {}, "source path '/nowhere' is not a folder; give a folder with .jsonl"),
        ("redis", "redis://:secret@h:1/0", {}, "names no stream; give redis://HOST:PORT/0"),
        ("nats", "nats://h:4222/a?subject=secret", {}, "has a parameter 'subject'; none is accepted"),
        ("kafka", "kafka://me:secret@h:9092/a", {}, "has a user in it; give kafka://HOST:9092/TOPIC, and sasl.user"),
        ("mqtt", "mqtt://me:secret@h", {}, "names no broker and topic; give mqtt://HOST:1883/TOPIC"),
        ("mqtt", "mqtt://h/a?token=secret", {}, "has a parameter 'token'; none is accepted"),
        ("mqtt", "mqtt://h/a", {"qos": 2}, "has no option 'qos'; it has client_id, session_s, prefetch"),
        ("mqtt", "mqtt://h/a", {"client_id": ""}, "option client_id of source mqtt is ''; give a name"),
        ("mqtt", "mqtt://h/a", {"session_s": 0.5}, "is 0.5; give a whole number from 1 to 4,294,967,295"),
        (
            "rabbitmq",
            "amqp://me:secret@h",
            {},
            "one broker and one queue or exchange; give amqp://HOST:5672/VHOST?queue",
        ),
        ("rabbitmq", "amqp://h/?queue=a&token=secret", {}, "has a parameter 'token'; accepted are queue, stream"),
        ("rabbitmq", "amqp://h/?queue=a", {"on_gap": "end"}, "no option 'on_gap' for a queue; it has prefetch"),
        ("rabbitmq", "amqp://h/?queue=a", {"prefetch": True}, "is True; give a whole number from 1 to 65,535"),
        ("rabbitmq", "amqp://h/?stream=a", {"on_gap": "wait"}, "is 'wait'; give end or go-on"),
    ],
)
def test_a_place_that_cannot_be_is_told_in_a_sentence(kind: str, path: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(RecomposeError) as refused:
        open_source(registry.create("synthetic"), kind, path, clock=time.monotonic, options=options)
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)


def test_an_unknown_kind_is_answered_with_all_forms() -> None:
    with pytest.raises(ValueError, match=r"give replay, replay:PATH, .* or amqp://HOST:PORT/VHOST\?queue=NAME"):
        parse_source("tape")


BODY = frozenset(StartRequest.model_fields)
SAME = {"rate": "input", "pattern": "input", "duration": "duration_s", "in_memory": "source"}
SAME |= dict.fromkeys(("batch", "batch_bytes", "linger_ms"), "batching")
"""Options under another name in the body."""
OF_THE_CLIENT = {"app", "client", "as_json", "progress", "fail_on_slo"}
"""The app is in the path."""
OF_THE_SERVICE = {"apps_dirs", "telemetry", "pool", "journals", "out", "out_path", "dead_letters", "dead_letters_path"}
"""Options of ``recompose serve``, and files on the machine of whoever starts a run: a service has sinks."""
OF_A_RUN = {"run", "epoch", "started_again", "kept_up", "compositions", "announced"}
"""Its identity, which the service gives, and what other requests bring."""


def options_of(command: object) -> set[str]:
    return {str(each.name) for each in command.params}  # type: ignore[attr-defined]


def fields_of_a_spec() -> set[str]:
    nested = {"origin", "ending", "durable", "method"}
    inner = {name for topic in nested for name in RunSpec.model_fields[topic].annotation.__annotations__}  # type: ignore[union-attr]
    return RunSpec.model_fields.keys() - nested | inner


@pytest.mark.parametrize(
    ("taken", "elsewhere"),
    [
        (options_of(start), OF_THE_CLIENT),
        (options_of(run), OF_THE_CLIENT | OF_THE_SERVICE),
        ({"source", "slo", "sink", *Settings.__annotations__}, OF_THE_CLIENT | OF_THE_SERVICE),
        (fields_of_a_spec(), OF_THE_CLIENT | OF_THE_SERVICE | OF_A_RUN),
    ],
    ids=["recompose start", "recompose run", "run() of a script", "the spec of a run"],
)
def test_the_body_takes_all_that_others_take(taken: Collection[str], elsewhere: Collection[str]) -> None:
    left = {SAME.get(name, name) for name in set(taken) - set(elsewhere)}
    assert left - BODY == set()


class Numbers(App):
    name = "numbers"
    stages = (Stage("s"),)


@pytest.mark.usefixtures("talkative")
@pytest.mark.parametrize(("source", "message"), [(Fed, Message("p", 1, b"7")), (Inbox, Letter("p", b"7", 1))])
def test_a_reason_is_logged_once_until_it_answers(source: Any, message: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fed, "AGAIN_S", 0.0)
    monkeypatch.setattr(inbox, "AGAIN_S", 0.0)
    whys = ["nobody listens"] * 3 + ["no such topic"] * 2
    away = Mock(ended=False, open=Mock(side_effect=[*map(OSError, whys), None]), poll=lambda *_: [message])
    away.seek = away.open  # of a feed; ``open`` is that of a box
    with capture_logs() as logs:
        made = source(Numbers(), away, lambda: 0.0)
        assert made.fault is None
        assert made.read(1, math.inf).values == [7]
        made.close()
    assert [line["error"] for line in logs if line["log_level"] == "warning"] == ["nobody listens", "no such topic"]
    assert [line["event"] for line in logs if line["log_level"] == "info"] == ["source answers again"]
    assert made.fault is None


def test_the_status_says_so() -> None:
    pytest.importorskip("redis", reason="redis is not installed; it is in extra redis")
    source = SourceSpec(kind="redis", path="redis://127.0.0.1:1/0?stream=nobody")
    runner = Runner(RunSpec(app="synthetic", pool="local", source=source))
    runner.ask(Start())
    try:
        why = "the source does not answer; trying again: source redis"
        eventually(lambda: str(runner.ask(ReadStatus()).health.held_up), lambda told: why in told)
    finally:
        runner.kill()


MORE = {"maxFilesPerTrigger": 4, "header": True}
SPARK: dict[str, Any] = {"kind": "spark", "format": "csv", "path": "in"}


def test_the_command_line_reads_a_source_file_and_a_sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = "{schema: n INT, maxFilesPerTrigger: 4, header: true}"
    (tmp_path / "source.yaml").write_text(f"format: json\npath: in\noptions: {options}\n")
    source = parse_source(f"spark:{tmp_path / 'source.yaml'}")
    assert (source.kind, source.format, source.options) == ("spark", "json", {"schema": "n INT"} | MORE)
    monkeypatch.setattr(session, "java_home", lambda: "/java")
    setup = open_link(RunSpec(app="synthetic", source=source), Synthetic())
    assert setup._setup.source.options == {"schema": "n INT", "maxFilesPerTrigger": "4", "header": "true"}
    assert parse_sink("orc:out") == SinkSpec(format="orc", path="out")
    assert parse_sink("spark+orc:out") == SinkSpec(format="orc", path="out")
    assert parse_sink("spark+parquet:out") == SinkSpec(kind="spark", format="parquet", path="out")
    assert parse_sink("parquet:out") == SinkSpec(kind="parquet", path="out")
    assert parse_sink("sql:sqlite:///a.db") == SinkSpec(kind="sql", path="sqlite:///a.db")
    assert parse_sink("redis://h:1/0?stream=a") == SinkSpec(kind="redis", path="redis://h:1/0?stream=a")
    assert parse_sink("kafka://h:9092/a") == SinkSpec(kind="kafka", path="kafka://h:9092/a")
    assert parse_sink("https://h/x") == SinkSpec(kind="webhook", path="https://h/x")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(None, "cannot read"), ("- a\n", "must be a mapping"), ("format: csv\ncolour: red\n", "colour = 'red'")],
)
def test_a_source_file_that_is_none_is_refused(tmp_path: Path, content: str | None, sentence: str) -> None:
    if content is not None:
        (tmp_path / "source.yaml").write_text(content)
    with pytest.raises(ValueError, match=sentence):
        parse_source(f"spark:{tmp_path / 'source.yaml'}")


@pytest.mark.parametrize("text", ["out", "spark+avro:out"])
def test_a_sink_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no sink; give parquet:FOLDER, .* or spark\+FORMAT:PATH \(parquet, orc"):
        parse_sink(text)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"source": SourceSpec(kind="spark")}, "source spark needs a format, such as csv"),
        ({"source": SourceSpec(**SPARK, transform="no.sql")}, r"transform 'no\.sql' cannot be read"),
        ({"sink": SinkSpec(path=__file__)}, r"sink path '.*' is a file; give a folder"),
    ],
)
def test_what_cannot_be_opened_is_said(monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], sentence: str) -> None:
    monkeypatch.setattr(session, "java_home", lambda: "/java")
    with pytest.raises(RecomposeError, match=sentence):
        open_link(RunSpec(app="synthetic", **fields), Synthetic())


def test_without_java_it_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_candidates", lambda: iter(()))
    with pytest.raises(RecomposeError, match="Spark needs Java 17 or 21"):
        open_link(RunSpec(app="synthetic", source=SourceSpec(**SPARK)), Synthetic())
