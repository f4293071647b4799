"""The streaming query, from the description of the source to rows as JSON; and the table for results."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from compositions.errors import RecomposeError
from datapipe.spark.messages import Fetch, Key, StreamSource, TableSink

FORMATS = ("parquet", "orc", "json", "csv")
ROWS = pa.schema([("row", pa.int64()), ("error", pa.string()), ("value", pa.string()), ("part", pa.int32())])
VALUE = '{"value": '
"""The beginning of a result with one value; the value's JSON text and a brace follow."""
PART = re.compile(r"part-(\d+)-(\d+)\.")


class NoTable:
    """No table: the results are stored elsewhere, so results that the runner has delivered count as durable."""

    def durable(self, key: Key) -> int:
        return 0

    def write(self, key: Key, what: Fetch) -> None:
        pass


class PartTable:
    """``results`` makes a DataFrame of results, with the columns of ``ROWS``. Raises: RecomposeError for a format that
    has no files."""

    def __init__(self, spark: Any, sink: TableSink, results: Callable[[Fetch], Any]) -> None:
        self._format = sink.format
        if self._format not in FORMATS:
            raise RecomposeError(f"sink format {self._format!r} is not accepted; {', '.join(FORMATS)} are")
        self._results, self._schema = results, sink.schema
        self._options = sink.options
        self._root = sink.path.rstrip("/")
        self._files = Files(spark, self._root)

    def durable(self, key: Key) -> int:
        """Return the number of rows of the batch, from 0 on, whose results are stored."""
        return covered(self._files.names(self._folder(key)))

    def write(self, key: Key, what: Fetch) -> None:
        aside = f"{self._root}/_staging/{key.query}-{key.batch}-{what.first}"
        rows = shaped(self._results(what), self._schema).coalesce(1)
        rows.write.format(self._format).options(**self._options).mode("overwrite").save(aside)
        (written,) = [name for name in self._files.names(aside) if name.startswith("part-")]
        suffix = written[written.index(".") :]
        self._files.move(f"{aside}/{written}", self._folder(key), part_name(what.first, what.rows) + suffix)
        self._files.remove(aside)

    def _folder(self, key: Key) -> str:
        return f"{self._root}/query={key.query}/batch={key.batch}"


Table = PartTable | NoTable


def part_name(first: int, count: int) -> str:
    return f"part-{first:09d}-{first + count - 1:09d}"


def covered(names: Sequence[str]) -> int:
    """Return the number of rows, from 0 on, that the parts of these names have without a gap."""
    spans = sorted((int(match[1]), int(match[2])) for name in names if (match := PART.match(name)))
    until = 0
    for first, last in spans:
        if first > until:
            break
        until = max(until, last + 1)
    return until


def shaped(rows: Any, schema: str | None) -> Any:
    """Return the DataFrame with the columns of ``schema`` in place of ``value``, which is JSON."""
    from pyspark.sql import functions as f

    if schema is None:
        return rows
    names = ["value.*" if name == "value" else name for name in rows.columns]
    return rows.withColumn("value", f.from_json("value", schema)).select(*names)


def row_for_each_value(keys: Sequence[Any], results: Sequence[str], kind: pa.DataType | None = None) -> pa.RecordBatch:
    """Return ``ROWS`` with one row for each result, and one for each value of a result that has several.

    ``keys`` become the column ``row``, of type ``kind`` (default: that of ``ROWS``). A value that is a text stands as
    it is, all others as JSON; null is null.
    """
    rows: list[tuple[Any, ...]] = []
    for key, result in zip(keys, results, strict=True):
        if result.startswith(VALUE):
            rows.append((key, None, _cell(result[len(VALUE) : -1]), None))
            continue
        told = json.loads(result)
        values = enumerate(told.get("values", ()))
        rows += [(key, None, _cell(json.dumps(each, ensure_ascii=False)), part) for part, each in values]
        if "error" in told:
            rows.append((key, told["error"], None, None))
    schema = ROWS if kind is None else ROWS.set(0, pa.field("row", kind))
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(each, type_) for each, type_ in zip(columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cell(text: str) -> str | None:
    if text.startswith('"'):
        return str(json.loads(text))
    return None if text == "null" else text


class Files:
    """The part of a Hadoop file system that we need, so that a path may be any that Spark takes."""

    def __init__(self, spark: Any, root: str) -> None:
        self._path = spark._jvm.org.apache.hadoop.fs.Path
        self._system = self._path(root).getFileSystem(spark._jsc.hadoopConfiguration())

    def names(self, folder: str) -> list[str]:
        place = self._path(folder)
        there = self._system.listStatus(place) if self._system.exists(place) else ()
        return [str(each.getPath().getName()) for each in there]

    def move(self, before: str, folder: str, name: str) -> None:
        """Move a file into a folder. Raises: OSError if the file system refuses."""
        self._system.mkdirs(self._path(folder))
        if not self._system.rename(self._path(before), self._path(f"{folder}/{name}")):
            raise OSError(f"cannot move {before!r} to {folder}/{name}")

    def remove(self, folder: str) -> None:
        self._system.delete(self._path(folder), True)


VIEW = "input"
"""Name of the source in the SQL of ``transform``."""
LIMITS = {
    **dict.fromkeys(("csv", "json", "orc", "parquet", "text", "binaryFile"), ("maxFilesPerTrigger", "1000")),
    "kafka": ("maxOffsetsPerTrigger", "10000"),
}
"""Default limits of a micro-batch, by source format. The runner takes rows as it has room, so the limits only bound the
rows that Spark reads again after a crash."""
SCHEMAS = {"binaryFile": "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"}
"""Schemas of formats that have a fixed one and still require it."""
ROW_WISE = {
    "Project", "Filter", "SubqueryAlias", "View", "Generate", "Union", "LocalRelation", "OneRowRelation",
    "StreamingRelation", "StreamingRelationV2", "StreamingDataSourceV2Relation", "LogicalRelation",
}  # fmt: skip
"""Operators that keep the order of rows."""
SOME_ROWS = {"GlobalLimit", "LocalLimit", "Tail", "Offset", "Sample"}
"""Operators that choose rows by the order in which they happen to come, or by chance."""
OF_THE_FILE = {"InputFileName", "InputFileBlockStart", "InputFileBlockLength"}
"""Functions that Spark calls nondeterministic, but that are fixed for a row of a file."""
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
            raise RecomposeError(f"the transform of the Spark source must select from {VIEW}, the stream")
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
    return rows.withColumn(_TEXT, as_json()).orderBy(_TEXT).drop(_TEXT)


def as_json() -> Any:
    """Return a column with the whole row as JSON."""
    from pyspark.sql import functions as f

    return f.to_json(f.struct("*"), {"ignoreNullFields": "false"})


def one_line(error: BaseException) -> str:
    """Return what an error of Spark says, without the stack of the JVM."""
    java = getattr(error, "java_exception", None)
    lines = str(error if java is None else java.toString()).strip().splitlines() or [type(error).__name__]
    return lines[0].strip()[:300]
