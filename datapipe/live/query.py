"""The streaming query: from what the user says of the source to rows as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compositions.errors import RecomposeError

VIEW = "input"
"""Name of the source in the SQL of ``transform``."""
LIMITS = {
    **dict.fromkeys(("csv", "json", "orc", "parquet", "text", "binaryFile"), ("maxFilesPerTrigger", "1000")),
    "kafka": ("maxOffsetsPerTrigger", "10000"),
}
"""How much a micro-batch may read where the user does not say: the runner takes rows as it has room for them, so that
this bounds only what a crash makes Spark read again."""
SCHEMAS = {"binaryFile": "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"}
"""Of formats that have only one, and want it all the same."""


def streaming_rows(spark: Any, source: dict[str, Any]) -> Any:
    """A streaming DataFrame. Raises: RecomposeError when Spark refuses the format, an option, or the SQL."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        frame = _reader(spark, source)
        if source.get("transform"):
            frame.createOrReplaceTempView(VIEW)
            frame = spark.sql(source["transform"])
        if not frame.isStreaming:
            raise RecomposeError(f"the transform of the Spark source does not select from {VIEW}, which is the stream")
        return frame
    except (PySparkException, Py4JError) as error:
        why = one_line(error)
        if why.startswith("Schema must be specified"):
            why = "it needs a schema; give one as the option schema, such as 'name STRING, number INT'"
        raise RecomposeError(f"Spark source {source['format']!r} cannot be read: {why}") from error


def _reader(spark: Any, source: dict[str, Any]) -> Any:
    options = dict(source.get("options") or {})
    schema = options.pop("schema", SCHEMAS.get(source["format"]))
    options = dict([LIMITS[source["format"]]] if source["format"] in LIMITS else []) | options
    reader = spark.readStream.format(source["format"]).options(**options)
    if schema is not None:
        reader = reader.schema(schema)
    return reader.load(source["path"]) if source.get("path") else reader.load()


def texts_of(rows: Any) -> Iterator[str]:
    """The rows of a micro-batch as JSON, in the order of its partitions, some at a time."""
    from pyspark.sql import functions as f

    as_json = rows.select(f.to_json(f.struct("*"), {"ignoreNullFields": "false"}).alias("row"))
    return (row["row"] for row in as_json.toLocalIterator())


def one_line(error: BaseException) -> str:
    """What an error of Spark says, without the stack of the JVM."""
    java = getattr(error, "java_exception", None)
    lines = str(error if java is None else java.toString()).strip().splitlines() or [type(error).__name__]
    return lines[0].strip()[:300]
