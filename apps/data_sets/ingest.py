"""Make the next version of a data set: list files, compute new rows, write them beside the old version, switch."""

import json
import logging
import platform
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import reduce
from hashlib import file_digest, sha256
from importlib.metadata import version as version_of
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from apps.data_sets.files import Place
from apps.data_sets.recipe import TASKS, Recipe, record_schema
from apps.data_sets.rows import LISTED, ORDER, Rows, open_rows, write_rows
from apps.data_sets.versions import INDEX, MANIFEST, DataSet, Unusable, share, writing
from apps.data_sets.work import SHARDS, Engine, in_process, shard_of
from compositions.errors import RecomposeError

FILES = pa.schema([*LISTED, ("sha256", pa.string()), ("error", pa.string()), ("rows", pa.int32())])
Tell = Callable[[int, int], None]
"""Called with the numbers of files done and of all files."""


def news(records: pa.Table, before: pa.Table) -> pa.Table:
    """Return the records except those of files that could not be read before either, for the same reason."""
    failed = before.filter(pc.is_null(before["sha256"]))
    reasons = failed["error"].take(pc.index_in(records["path"], failed["path"]))
    return records.filter(pc.invert(pc.fill_null(pc.equal(records["error"], reasons), False)))


def unchanged(records: pa.Table) -> pa.Table:
    """Return the records of files with unchanged content."""
    return records.filter(pc.and_(pc.is_null(records["rows"]), pc.is_null(records["error"])))


def computed(records: pa.Table) -> pa.Table:
    return records.filter(pc.or_(pc.is_valid(records["rows"]), pc.is_valid(records["error"])))


def features(records: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the schema with a row per region, face …: ``row`` counts within the file."""
    lists = records["rows"].combine_chunks()
    owners = pc.list_parent_indices(lists).to_numpy()
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    starts = np.concatenate(([0], np.cumsum(counts)[:-1])) if len(counts) else np.zeros(0, np.int64)
    within = np.arange(len(owners)) - starts[owners]
    flat = pc.list_flatten(lists)
    parts = [pc.struct_field(flat, name) for name in schema.names[2:]]
    path = records["path"].combine_chunks().take(pa.array(owners))
    return pa.Table.from_arrays([path, pa.array(within, pa.int32()), *parts], schema=schema)


def files_table(before: pa.Table, same: pa.Table, new: pa.Table, gone: pa.Table) -> pa.Table:
    """Return the files of the next version by path; those in ``same`` with their present size and time."""
    known = before.select(["error", "rows"]).take(pc.index_in(same["path"], before["path"]))
    again = same.drop(known.column_names).append_column("error", known["error"]).append_column("rows", known["rows"])
    left = without(without(without(before, gone), same), new)
    known_rows = new.set_column(new.schema.get_field_index("rows"), "rows", pc.fill_null(new["rows"], 0))
    return pa.concat_tables([left, again, known_rows]).sort_by("path")


def without(table: pa.Table, others: pa.Table) -> pa.Table:
    """Return the rows of all files but those in ``others``."""
    return table.filter(pc.invert(pc.is_in(table["path"], others["path"])))


def quarantine(files: pa.Table) -> pa.Table:
    bad = files.filter(pc.is_valid(files["error"]))
    return pa.table({"path": bad["path"], "reason": bad["error"]})


class Staging:
    """Records that the engine put into ``folder``, which is shared by jobs with equal results for equal files.
    ``columns`` are the recipe's."""

    def __init__(self, folder: Path, columns: pa.Schema) -> None:
        self.folder = folder
        self._schema = pa.schema([*record_schema(columns), ("shard", pa.int32()), ("count", pa.int32())])

    def records(self, tasks: pa.Table) -> pa.Table:
        """Return the records of tasks whose file is unchanged since, with the number of their rows instead of the rows:
        null for a file that is known already, or unusable."""
        staged = pa.concat_tables(self._read([*FILES.names[:-1], "count"])).rename_columns(FILES.names)
        staged = of_now(staged.cast(FILES), tasks, ["size", "mtime_ns"])
        # Of several records of a file, those without a hash, which could not read it, come last.
        return once(staged.sort_by([("path", "ascending"), ("sha256", "ascending")]), ["path"])

    def split(self, place: Path) -> None:
        """Write the records of files that have rows into a file for each shard, in no order."""
        with ExitStack() as opened:
            writers = [
                opened.enter_context(pa.ipc.new_stream(place / str(shard), self._schema)) for shard in range(SHARDS)
            ]
            for staged in self._read(self._schema.names):
                for shard in staged["shard"].unique().to_pylist():
                    mine = pc.and_(pc.equal(staged["shard"], shard), pc.is_valid(staged["rows"]))
                    writers[shard].write_table(staged.filter(mine))

    def _read(self, names: list[str]) -> Iterator[pa.Table]:
        yield self._schema.empty_table().select(names)
        for file in sorted(self.folder.glob("*.parquet")):
            yield pq.read_table(file, columns=names, partitioning=None)


def of_now(records: pa.Table, files: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the records of ``files`` with equal values in the columns ``names``."""
    now = files.select(names).take(pc.index_in(records["path"], files["path"]))
    agree = [pc.fill_null(pc.equal(records[name], now[name]), False) for name in names]
    return records.filter(reduce(pc.and_, agree))


def once(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the first of several sorted rows that are equal in the columns ``names``: files that are computed again
    may be divided differently."""
    same = [pc.equal(rows[name].slice(1), rows[name].slice(0, max(rows.num_rows - 1, 0))) for name in names]
    again = reduce(pc.and_, same)
    if pc.any(again).as_py():
        rows = rows.filter(pa.chunked_array([[True], *pc.invert(again).chunks]))
    return rows.combine_chunks()


class Plan(NamedTuple):
    """``todo`` are tasks in the order of the listing; ``gone`` are files of the current version that no longer exist;
    ``kept`` counts files that need no check."""

    todo: pa.Table
    kept: int
    gone: pa.Table


def plan(found: pa.Table, before: pa.Table) -> Plan:
    """Return the plan. A file whose size or time differs is read; its checksum shows whether its content changed."""
    known = before["sha256"].take(pc.index_in(found["path"], before["path"]))
    todo = without(found.append_column("known", known), of_now(found, good(before), ["size", "mtime_ns"]))
    return Plan(todo.cast(TASKS), found.num_rows - todo.num_rows, without(before, found))


def good(files: pa.Table) -> pa.Table:
    """Return the files that could be read."""
    return files.filter(pc.is_valid(files["sha256"]))


log = logging.getLogger("recompose.data_sets")
MADE_WITH = ("recompose", "numpy", "opencv-contrib-python-headless", "pyarrow")


class Ingested(NamedTuple):
    """The outcome of a job: the files it ``computed``, and those ``kept``, ``gone`` or unusable (``quarantined``)."""

    version: int
    computed: int
    kept: int
    gone: int
    quarantined: int
    rows: int


def ingest(
    recipe: Recipe, place: Place, out: Path, engine: Engine, tell: Tell | None = None, wait: bool = False
) -> Ingested:
    """Bring the data set in ``out`` up to date with the files in ``place``; of two jobs on one data set
    the second is refused, or waits.

    Raises: Unusable when what is there cannot be read or continued; RecomposeError when the files cannot be listed,
    none of them can be used, or ``out`` cannot be written. The version that was there stays the current one.
    """
    listed = place.list(recipe.suffixes)
    with writing(out, recipe.kind, wait) as data:
        try:
            return _next(_Job(data, recipe, place, listed), engine, tell or (lambda done, of: None))
        except (pa.ArrowInvalid, OSError) as error:
            raise Unusable(f"data set {str(out)!r} cannot be updated: {str(error).splitlines()[0]}") from error


def keep(recipe: Recipe, folder: Path, out: Path) -> None:
    """Make a data set for the app itself before it runs, in this process; a second job on it waits. Raises: as
    ``ingest``; RecomposeError also if the old data set is damaged and cannot be made anew."""
    place = Place(folder)
    log.info("checking for new and changed files of the data set in %s", place.name)
    try:
        ingest(recipe, place, out, in_process(recipe, place), wait=True)
    except Unusable as error:
        log.warning("rebuilding the data set from all its files: %s", error)
        shutil.rmtree(out, ignore_errors=True)
        ingest(recipe, place, out, in_process(recipe, place), wait=True)


class _Job(NamedTuple):
    data: DataSet
    recipe: Recipe
    place: Place
    listed: pa.Table

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the recipe's parameters as JSON returns them."""
        parts = {"parameters": self.recipe.parameters, "index_parameters": self.recipe.index_parameters}
        return dict(json.loads(json.dumps(parts)))

    @property
    def continues(self) -> bool:
        """Return whether this recipe would compute the same rows as the current version has."""
        before = self.data.manifest
        return before is not None and before["parameters"] == self.parameters["parameters"]

    def same_index(self) -> bool:
        before = self.data.manifest
        return before is not None and before["index_parameters"] == self.parameters["index_parameters"]

    @property
    def staging(self) -> Staging:
        """Return the records of earlier jobs with the same parameters, version and place."""
        key = json.dumps([self.data.version, self.place.name, self.parameters["parameters"]], sort_keys=True)
        return Staging(self.data.staging / sha256(key.encode()).hexdigest()[:16], self.recipe.columns)

    def files_before(self) -> pa.Table:
        if not self.continues:
            return FILES.empty_table()
        return pq.read_table(self.data.current / "files.parquet", schema=FILES)

    def features_before(self, shard: int) -> pa.Table:
        schema = pa.schema([("path", pa.string()), ("row", pa.int32()), *self.recipe.columns])
        file = self.data.current / _part(shard)
        known = self.continues and file.exists()
        return pq.read_table(file, schema=schema, partitioning=None) if known else schema.empty_table()


def _next(job: _Job, engine: Engine, tell: Tell) -> Ingested:
    before = job.files_before()
    todo = plan(job.listed, before)
    files, touched = _files(todo, _compute(job, todo.todo, engine, tell), before)
    if job.data.manifest and job.same_index() and files.equals(before):
        job.data.tidy()
        return _report(job.data.manifest, todo, computed=0)
    _refuse_empty(job, files)
    with job.data.next_version() as draft:
        _write(job, draft, files, touched)
        manifest = job.data.publish(draft, _content(job, draft, files))
    job.data.tidy()
    return _report(manifest, todo, touched.num_rows - todo.gone.num_rows)


def _files(todo: Plan, records: pa.Table, before: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the files of the next version, and the paths of those whose rows are others than ``before``."""
    found = news(records, before)
    new = computed(found)
    files = files_table(before, unchanged(found), new, todo.gone)
    return files, pa.concat_tables([new.select(["path"]), todo.gone.select(["path"])])


def _compute(job: _Job, todo: pa.Table, engine: Engine, tell: Tell) -> pa.Table:
    done = good(job.staging.records(todo))
    tell(count := done.num_rows, todo.num_rows)
    for computed_now in engine(without(todo, done), job.staging.folder):
        tell(count := count + computed_now, todo.num_rows)
    return job.staging.records(todo)


def _refuse_empty(job: _Job, files: pa.Table) -> None:
    if files.num_rows == quarantine(files).num_rows:
        first = files["error"][0].as_py()
        job.data.discard()
        raise RecomposeError(f"none of the {files.num_rows} files in {job.place.name!r} can be used: {first}")


def _write(job: _Job, draft: Path, files: pa.Table, touched: pa.Table) -> None:
    pq.write_table(files, draft / "files.parquet")
    pq.write_table(quarantine(files), draft / "quarantine.parquet")
    shards = {shard_of(path.as_py()) for path in touched["path"]} if job.continues else set(range(SHARDS))
    with TemporaryDirectory(dir=draft.parent) as scratch:
        parts = [Path(scratch) / str(shard) for shard in range(SHARDS)]
        job.staging.split(Path(scratch))
        for shard, part in enumerate(parts):
            before = job.features_before(shard)
            rows = _merged(without(before, touched), part, files) if shard in shards else before
            write_rows(rows, part)
            if rows.num_rows and shard in shards:
                (draft / _part(shard)).parent.mkdir(parents=True)
                pq.write_table(rows, draft / _part(shard))
            elif rows.num_rows:
                share(job.data.current / _part(shard), draft / _part(shard))
        if touched.num_rows or not job.same_index():
            job.recipe.write_index(Rows(parts, files.select(["path", "rows"])), draft / INDEX)
        else:
            share(job.data.current / INDEX, draft / INDEX)


def _merged(before: pa.Table, records: Path, files: pa.Table) -> pa.Table:
    """Return the rows of one shard: those ``before``, and those of ``files`` that were computed."""
    with open_rows(records) as stream:
        found = of_now(stream.read_all(), files, ["size", "mtime_ns", "sha256"])
    return once(pa.concat_tables([before, features(found, before.schema)]).sort_by(ORDER), ["path", "row"])


def _part(shard: int) -> str:
    return f"features/shard={shard}/part.parquet"


def _content(job: _Job, draft: Path, files: pa.Table) -> dict[str, Any]:
    written = sorted(path for path in draft.rglob("*") if path.is_file() and path.name != MANIFEST)
    checksums = {path.relative_to(draft).as_posix(): _checksum(path) for path in written}
    counts = {"files": files.num_rows, "quarantined": quarantine(files).num_rows, "rows": pc.sum(files["rows"]).as_py()}
    versions = {"python": platform.python_version()} | {name: version_of(name) for name in MADE_WITH}
    return {"folder": job.place.name, "counts": counts, "sha256": checksums, "made_with": versions, **job.parameters}


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _report(manifest: dict[str, Any], todo: Plan, computed: int) -> Ingested:
    counts = manifest["counts"]
    kept = todo.kept + todo.todo.num_rows - computed
    return Ingested(manifest["version"], computed, kept, todo.gone.num_rows, counts["quarantined"], counts["rows"])
