"""One table of source kinds: start body, command line and checks say of a kind what it says of itself."""

import gc
import time
import warnings
from typing import get_args

import pytest

from apps import registry
from datapipe import sink_kinds
from datapipe.source_kinds import KINDS, PathMeans, open_source
from recompose.started import _source
from service.cli.texts import parse_sink, parse_source
from service.schemas.spec import SinkSpec, SourceSpec

BROKERS = {
    "redis": "redis://h/0?stream=a",
    "kafka": "kafka://h/a",
    "nats": "nats://h/a",
    "mqtt": "mqtt://h/a",
    "rabbitmq": "amqp://h/?queue=a",
}


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
        assert said == f"{field} goes with source {owners} only, not with {kind}"


@pytest.mark.parametrize("kind", [each for each in KINDS.values() if not each.driven], ids=lambda each: each.name)
def test_the_command_line_takes_every_kind_with_a_path_where_it_has_one(kind) -> None:
    assert parse_source(kind.name) == SourceSpec(kind=kind.name)
    if kind.path is not PathMeans.NOTHING:
        assert parse_source(f"{kind.name}:a:b").path == "a:b"


MQTT, AMQP = ("mqtt://h/a/#", "mqtts://h/a"), ("amqp://h/?queue=a", "amqps://h/?queue=a")


@pytest.mark.parametrize("url", [*MQTT, *AMQP])
def test_a_url_says_by_its_scheme_what_kind_it_is_of(url: str) -> None:
    kind = "mqtt" if url in MQTT else "rabbitmq"
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


def test_an_unknown_kind_is_answered_with_all_forms() -> None:
    with pytest.raises(ValueError, match=r"give replay, replay:PATH, .* or amqp://HOST:PORT/VHOST\?queue=NAME"):
        parse_source("tape")
