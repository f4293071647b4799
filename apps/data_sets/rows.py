"""Read the rows of a data set in order, some thousand at a time, from files that each have some of them in order."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

LISTED = pa.schema([("path", pa.string()), ("size", pa.int64()), ("mtime_ns", pa.int64())])
"""Schema of a file; ``size`` in bytes, ``mtime_ns`` in ns since 1970 if the store has it (else 0)."""
ORDER = [("path", "ascending"), ("row", "ascending")]
TURN_ROWS = 256
"""Number of rows of each file in memory at a time."""


def open_rows(part: Path) -> pa.ipc.RecordBatchStreamReader:
    return pa.ipc.open_stream(pa.OSFile(str(part)))  # a path would be mapped, and count as memory of this process


def write_rows(rows: pa.Table, part: Path) -> None:
    with pa.ipc.new_stream(part, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=TURN_ROWS)


class Rows:
    """The rows of all files, sorted by ``path`` and ``row`` (number within the file). Each iteration reads them anew.

    ``parts``: files of ``write_rows`` with all rows of a path in one of them. ``files``: ``path`` and number of
    ``rows`` of each file, by path; files without rows are left out.
    """

    def __init__(self, parts: Sequence[Path], files: pa.Table) -> None:
        self._parts = parts
        self.files = files.filter(pc.greater(files["rows"], 0)).combine_chunks()

    def __iter__(self) -> Iterator[pa.Table]:
        """Yield some rows at a time."""
        with ExitStack() as opened:
            streams = [opened.enter_context(open_rows(part)) for part in self._parts]
            heads = [stream.schema.empty_table() for stream in streams]
            while True:
                heads = [head if head.num_rows else _more(stream) for head, stream in zip(heads, streams, strict=True)]
                last = [head["path"][-1].as_py() for head in heads if head.num_rows]
                if not last:
                    return
                # Later rows of any of the files do not precede the first of these.
                until = [pc.sum(pc.less_equal(head["path"], min(last))).as_py() or 0 for head in heads]
                taken = [head.slice(0, count) for head, count in zip(heads, until, strict=True)]
                heads = [head.slice(count) for head, count in zip(heads, until, strict=True)]
                yield pa.concat_tables(taken).sort_by(ORDER)


def _more(stream: pa.ipc.RecordBatchStreamReader) -> pa.Table:
    for batch in stream:
        if batch.num_rows:
            return pa.Table.from_batches([batch])
    return stream.schema.empty_table()
