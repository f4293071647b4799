"""Records of a job that has not ended: what an interrupted job found out is not computed again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from apps.data_sets.plan import Task


class Staging:
    """``folder`` is that of jobs which would find out the same of the same file."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self._folder, self._schema = folder, schema

    def put(self, records: pa.Table) -> None:
        """Appears whole or not at all."""
        self._folder.mkdir(parents=True, exist_ok=True)
        number = len(list(self._folder.glob("*.parquet")))
        draft = self._folder / "draft"
        pq.write_table(records, draft)
        draft.rename(self._folder / f"{number:06d}.parquet")

    def records(self, tasks: Sequence[Task]) -> pa.Table:
        """Of those tasks whose file could be read, and has not changed since."""
        parts = [pq.read_table(file, schema=self._schema) for file in sorted(self._folder.glob("*.parquet"))]
        if not parts:
            return self._schema.empty_table()
        now = {(task.path, task.size, task.mtime_ns) for task in tasks}
        staged = pa.concat_tables(parts)
        staged = staged.filter(pc.is_valid(staged["sha256"]))
        columns = zip(*(staged[name].to_pylist() for name in ("path", "size", "mtime_ns")), strict=True)
        return staged.filter(pa.array([key in now for key in columns], pa.bool_()))
