"""Check what is said of a live Spark source or sink before anything starts."""

from pathlib import Path
from typing import Any

import pytest

from apps.synthetic import Synthetic
from compositions.errors import RecomposeError
from datapipe.spark import session
from service.cli.texts import parse_sink, parse_source
from service.daemon.apps import check_start
from service.runner.validation.checked import open_link
from service.schemas.refusals import BadValueError
from service.schemas.spec import RunSpec, SinkSpec, SourceSpec

MORE = {"maxFilesPerTrigger": 4, "header": True}
SPARK: dict[str, Any] = {"kind": "spark", "format": "csv", "path": "in"}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"kind": "spark"}, "source spark needs a format, such as csv"),
        ({"kind": "push", "transform": "x.sql"}, "transform goes with source kind spark only, not with push"),
    ],
)
def test_fields_of_a_source_go_with_its_kind(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RecomposeError, match=sentence):
        open_link(RunSpec(app="synthetic", source=SourceSpec(**fields)), Synthetic())
    with pytest.raises(BadValueError, match=sentence):
        check_start(RunSpec(app="synthetic", source=SourceSpec(**fields)))


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
