"""One table of source kinds: start body, command line and checks say of a kind what it says of itself."""

from __future__ import annotations

from typing import get_args

import pytest

from apps.input.kinds import KINDS, PathMeans
from service.bodies.spec import SourceSpec
from service.cli.texts import parse_source


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
        owners = "kinds spark, redis, kafka and nats" if field == "options" else "kind spark"
        assert said == f"{field} goes with source {owners} only, not with {kind}"


@pytest.mark.parametrize("kind", [each for each in KINDS.values() if not each.driven], ids=lambda each: each.name)
def test_the_command_line_takes_every_kind_with_a_path_where_it_has_one(kind) -> None:
    assert parse_source(kind.name) == SourceSpec(kind=kind.name)
    if kind.path is not PathMeans.NOTHING:
        assert parse_source(f"{kind.name}:a:b").path == "a:b"


def test_an_unknown_kind_is_answered_with_all_forms() -> None:
    with pytest.raises(
        ValueError, match=r"give replay, replay:PATH, video:FILE, .*, kafka:.* or nats://HOST:PORT/STREAM"
    ):
        parse_source("tape")
