"""The streaming query: from what the user says of the source to rows as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compositions.errors import RecomposeError
from datapipe.spark.messages import StreamSource

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
ROW_WISE = {
    "Project", "Filter", "SubqueryAlias", "View", "Generate", "Union", "LocalRelation", "OneRowRelation",
    "StreamingRelation", "StreamingRelationV2", "StreamingDataSourceV2Relation", "LogicalRelation",
}  # fmt: skip
"""Operators that hand rows on in the order in which they get them."""
SOME_ROWS = {"GlobalLimit", "LocalLimit", "Tail", "Offset", "Sample"}
"""Operators that choose rows by the order in which they happen to come, or by chance."""
OF_THE_FILE = {"InputFileName", "InputFileBlockStart", "InputFileBlockLength"}
"""Spark calls them nondeterministic; of a row of a file they are as fixed as the file."""
_TEXT = "recompose_text"
_OTHER_ROWS = (
    "the transform of the Spark source uses {}, which gives other rows when a batch is computed again after a crash; "
    "compute it in the app, or from columns (xxhash64(a, b) is a number that looks random)"
)


def streaming_rows(spark: Any, source: StreamSource) -> Any:
    """A streaming DataFrame. Raises: RecomposeError when Spark refuses the format, an option, or the SQL."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        frame = _reader(spark, source)
        if source.transform:
            frame.createOrReplaceTempView(VIEW)
            frame = spark.sql(source.transform)
        if not frame.isStreaming:
            raise RecomposeError(f"the transform of the Spark source does not select from {VIEW}, which is the stream")
        _refuse_chance(frame)
        return frame
    except (PySparkException, Py4JError) as error:
        why = one_line(error)
        if why.startswith("Schema must be specified"):
            why = "it needs a schema; give one as the option schema, such as 'name STRING, number INT'"
        raise RecomposeError(f"Spark source {source.format!r} cannot be read: {why}") from error


def keeps_order(frame: Any) -> bool:
    """Return whether the rows of a batch come in the same order each time it is computed: its transform looks at one
    row at a time. Whatever shuffles rows hands them on as they arrive from elsewhere."""
    return all(node.nodeName() in ROW_WISE and node.subqueries().isEmpty() for node in _tree(_plan(frame)))


def _refuse_chance(frame: Any) -> None:
    """Raises: RecomposeError for a transform that gives other rows when a batch is computed again after a crash."""
    for node in _tree(_plan(frame)):
        if node.nodeName() in SOME_ROWS:
            raise RecomposeError(_OTHER_ROWS.format(node.nodeName()))
        for expression in _items(node.expressions()):
            for each in _tree(expression):
                by_itself = all(bool(child.deterministic()) for child in _items(each.children()))
                if not each.deterministic() and by_itself and each.nodeName() not in OF_THE_FILE:
                    raise RecomposeError(_OTHER_ROWS.format(each.sql()))


def _plan(frame: Any) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _tree(node: Any) -> Iterator[Any]:
    """A node of a plan, or of an expression, and all below it."""
    yield node
    for child in _items(node.children()):
        yield from _tree(child)


def _items(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(index) for index in range(sequence.size()))


def _reader(spark: Any, source: StreamSource) -> Any:
    options = dict(source.options)
    schema = options.pop("schema", SCHEMAS.get(source.format))
    options = dict([LIMITS[source.format]] if source.format in LIMITS else []) | options
    reader = spark.readStream.format(source.format).options(**options)
    if schema is not None:
        reader = reader.schema(schema)
    return reader.load(source.path) if source.path else reader.load()


def in_order_of_text(rows: Any) -> Any:
    """The same rows in an order that is the same each time, as that in which a shuffle hands them on is not: a row's
    number must mean the same row when its batch comes again."""
    return rows.withColumn(_TEXT, _as_json()).orderBy(_TEXT).drop(_TEXT)


def texts_of(rows: Any) -> Iterator[str]:
    """The rows of a micro-batch as JSON, in the order of its partitions, some at a time."""
    return (row["row"] for row in rows.select(_as_json().alias("row")).toLocalIterator())


def _as_json() -> Any:
    from pyspark.sql import functions as f

    return f.to_json(f.struct("*"), {"ignoreNullFields": "false"})


def one_line(error: BaseException) -> str:
    """Return what an error of Spark says, without the stack of the JVM."""
    java = getattr(error, "java_exception", None)
    lines = str(error if java is None else java.toString()).strip().splitlines() or [type(error).__name__]
    return lines[0].strip()[:300]
