"""Make the next version of a data set: list files, compute what is new, write it beside the old version, switch."""

from __future__ import annotations

import json
import logging
import platform
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from apps.data_sets.files import Listed, Place
from apps.data_sets.recipe import TASKS, Recipe, record_schema
from apps.data_sets.versions import INDEX, MANIFEST, DataSet, Unusable, share, writing
from apps.data_sets.work import SHARDS, Engine, in_process, shard_of
from compositions.errors import RecomposeError

FILES = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("mtime_ns", pa.int64()),
        ("sha256", pa.string()),
        ("error", pa.string()),
        ("rows", pa.int32()),
    ]
)


def features_schema(columns: pa.Schema) -> pa.Schema:
    return pa.schema([("path", pa.string()), ("row", pa.int32()), *columns])


def news(records: pa.Table, before: pa.Table) -> pa.Table:
    """All but those of files that could not be read and still cannot, for the same reason."""
    failed = before.filter(pc.is_null(before["sha256"]))
    known = set(zip(failed["path"].to_pylist(), failed["error"].to_pylist(), strict=True))
    if not known:
        return records
    pairs = zip(records["path"].to_pylist(), records["error"].to_pylist(), strict=True)
    return records.filter(pa.array([pair not in known for pair in pairs], pa.bool_()))


def unchanged(records: pa.Table) -> pa.Table:
    """Records of files whose content is what was known already."""
    return records.filter(pc.and_(pc.is_null(records["rows"]), pc.is_null(records["error"])))


def computed(records: pa.Table) -> pa.Table:
    return records.filter(pc.or_(pc.is_valid(records["rows"]), pc.is_valid(records["error"])))


def features(records: pa.Table, columns: pa.Schema) -> pa.Table:
    """One row a region, face …: ``row`` counts within the file."""
    lists = records["rows"].combine_chunks()
    owners = pc.list_parent_indices(lists).to_numpy()
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    starts = np.concatenate(([0], np.cumsum(counts)[:-1])) if len(counts) else np.zeros(0, np.int64)
    within = np.arange(len(owners)) - starts[owners]
    flat = pc.list_flatten(lists)
    parts = [pc.struct_field(flat, name) for name in columns.names]
    path = records["path"].combine_chunks().take(pa.array(owners))
    return pa.Table.from_arrays([path, pa.array(within, pa.int32()), *parts], schema=features_schema(columns))


def file_rows(records: pa.Table) -> pa.Table:
    return records.set_column(records.schema.get_field_index("rows"), "rows", pc.fill_null(records["rows"], 0))


def files_table(before: pa.Table, same: pa.Table, new: pa.Table, gone: Sequence[str]) -> pa.Table:
    """Files of the next version by path: ``same`` with the size and time that they have now."""
    known = {row["path"]: {"rows": row["rows"], "error": row["error"]} for row in before.to_pylist()}
    again = [row | known[row["path"]] for row in file_rows(same).to_pylist()]
    left = without(before, [*gone, *same["path"].to_pylist(), *new["path"].to_pylist()])
    return pa.concat_tables([left, pa.Table.from_pylist(again, FILES), file_rows(new)]).sort_by("path")


def without(table: pa.Table, paths: Sequence[str]) -> pa.Table:
    return table.filter(pc.invert(pc.is_in(table["path"], pa.array(paths, pa.string()))))


def quarantine(files: pa.Table) -> pa.Table:
    bad = files.filter(pc.is_valid(files["error"]))
    return pa.table({"path": bad["path"], "reason": bad["error"]})


class Staging:
    """Records as the engine put them into ``folder``, which is that of jobs that would find out the same of the same
    file. ``columns`` are the recipe's."""

    def __init__(self, folder: Path, columns: pa.Schema) -> None:
        self.folder, self._columns = folder, columns

    def records(self, tasks: Sequence[Task]) -> pa.Table:
        """Return the records of tasks whose file has not changed since, with the number of their rows instead of them:
        null for a file that is what was known, or cannot be used."""
        names = [*FILES.names[:-1], "count"]
        # Files that could not be read have no hash and come last, so that a record of the same file wins over them.
        staged = self._read(names).rename_columns(FILES.names).sort_by([("sha256", "ascending")])
        now = {(task.path, task.size, task.mtime_ns) for task in tasks}
        columns = zip(*(staged[name].to_pylist() for name in ("path", "size", "mtime_ns")), strict=True)
        return _once(staged.filter(pa.array([key in now for key in columns], pa.bool_()))).cast(FILES)

    def features(self, shard: int, new: pa.Table) -> pa.Table:
        """Return the rows of a shard, of files in ``new``."""
        names = ["path", "size", "mtime_ns", "rows"]
        staged = self._read(names, (pc.field("shard") == shard) & pc.field("rows").is_valid())
        now = set(zip(*(new[name].to_pylist() for name in names[:3]), strict=True))
        columns = zip(*(staged[name].to_pylist() for name in names[:3]), strict=True)
        return features(_once(staged.filter(pa.array([key in now for key in columns], pa.bool_()))), self._columns)

    def _read(self, names: Sequence[str], only: Any = None) -> pa.Table:
        schema = pa.schema([*record_schema(self._columns), ("shard", pa.int32()), ("count", pa.int32())])
        files = [str(file) for file in sorted(self.folder.glob("*.parquet"))]
        whole = ds.dataset(files, schema, format="parquet") if files else ds.dataset(schema.empty_table())
        return whole.to_table(columns=list(names), filter=only)


def _once(records: pa.Table) -> pa.Table:
    """The first of several records of one file: a part that is computed again may be cut differently."""
    _, first = np.unique(np.array(records["path"].to_pylist(), object), return_index=True)
    return records.take(pa.array(np.sort(first), pa.int64()))


class Known(NamedTuple):
    """A file as a version has it; ``sha256`` None when it could not even be read."""

    size: int
    mtime_ns: int
    sha256: str | None


class Task(NamedTuple):
    path: str
    size: int
    mtime_ns: int
    known: str | None


class Plan(NamedTuple):
    """``todo`` in the order of the listing; ``gone`` are paths of the current version that are no longer there."""

    todo: tuple[Task, ...]
    kept: tuple[str, ...]
    gone: tuple[str, ...]


def plan(found: Sequence[Listed], known: Mapping[str, Known]) -> Plan:
    """A file of another size or time is read; whether its content is another, its checksum tells."""
    todo, kept = [], []
    for file in found:
        before = known.get(file.path)
        if before is not None and before.sha256 and (before.size, before.mtime_ns) == (file.size, file.mtime_ns):
            kept.append(file.path)
        else:
            todo.append(Task(*file, known=before.sha256 if before else None))
    gone = sorted(known.keys() - {file.path for file in found})
    return Plan(tuple(todo), tuple(kept), tuple(gone))


log = logging.getLogger("recompose.data_sets")
ORDER = [("path", "ascending"), ("row", "ascending")]
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
    recipe: Recipe,
    place: Place,
    out: Path,
    engine: Engine,
    tell: Callable[[int, int], None] | None = None,
    wait: bool = False,
) -> Ingested:
    """Brings the data set in ``out`` up to date with the files in ``place``. ``tell`` gets (files done, files to do);
    of two jobs on one data set the second is refused, or waits.

    Raises: Unusable when what is there cannot be read or continued; RecomposeError when the files cannot be listed,
    none of them can be used, or ``out`` cannot be written. The version that was there stays the current one.
    """
    listed = place.list(recipe.suffixes)
    with writing(out, recipe.kind, wait) as data:
        try:
            return _next(_Job(data, recipe, place, listed), engine, tell or (lambda done, of: None))
        except (pa.ArrowInvalid, OSError) as error:
            raise Unusable(f"data set {str(out)!r} cannot be continued: {str(error).splitlines()[0]}") from error


def keep(recipe: Recipe, folder: Path, out: Path) -> None:
    """A data set that an app makes for itself before it runs, in this process; of two at a time the second waits.

    Raises: as ``ingest``; RecomposeError also when what was kept is damaged and cannot be made anew.
    """
    place = Place(folder)
    log.info("looking for changes in the files of %s", place.name)
    try:
        ingest(recipe, place, out, in_process(recipe, place), wait=True)
    except Unusable as error:
        log.warning("making the data set anew: %s", error)
        shutil.rmtree(out, ignore_errors=True)
        ingest(recipe, place, out, in_process(recipe, place), wait=True)


class _Job(NamedTuple):
    data: DataSet
    recipe: Recipe
    place: Place
    listed: list[Listed]

    @property
    def parameters(self) -> dict[str, Any]:
        """As they come back from JSON."""
        parts = {"parameters": self.recipe.parameters, "index_parameters": self.recipe.index_parameters}
        return dict(json.loads(json.dumps(parts)))

    @property
    def continues(self) -> bool:
        """The current version's rows are what this recipe would compute."""
        before = self.data.manifest
        return before is not None and before["parameters"] == self.parameters["parameters"]

    def same_index(self) -> bool:
        before = self.data.manifest
        return before is not None and before["index_parameters"] == self.parameters["index_parameters"]

    @property
    def staging(self) -> Staging:
        """Return what jobs with the same parameters, over the same version and the same place, have found out."""
        key = json.dumps([self.data.version, self.place.name, self.parameters["parameters"]], sort_keys=True)
        return Staging(self.data.staging / sha256(key.encode()).hexdigest()[:16], self.recipe.columns)

    def files_before(self) -> pa.Table:
        if not self.continues:
            return FILES.empty_table()
        return pq.read_table(self.data.current / "files.parquet", schema=FILES)

    def features_before(self, shard: int) -> pa.Table:
        schema = features_schema(self.recipe.columns)
        file = self.data.current / _part(shard)
        known = self.continues and file.exists()
        return pq.read_table(file, schema=schema, partitioning=None) if known else schema.empty_table()


def _next(job: _Job, engine: Engine, tell: Callable[[int, int], None]) -> Ingested:
    before = job.files_before()
    known = {row["path"]: Known(row["size"], row["mtime_ns"], row["sha256"]) for row in before.to_pylist()}
    todo = plan(job.listed, known)
    found = news(_compute(job, todo, engine, tell), before)
    new, same = computed(found), unchanged(found)
    if job.data.manifest and job.continues and job.same_index() and not found.num_rows and not todo.gone:
        job.data.tidy()
        return _report(job.data.manifest, todo, computed=0)
    files = files_table(before, same, new, todo.gone)
    _refuse_empty(job, files)
    with job.data.next_version() as draft:
        _write(job, draft, files, new, todo.gone)
        manifest = job.data.publish(draft, _content(job, draft, files))
    job.data.tidy()
    return _report(manifest, todo, computed=new.num_rows)


def _compute(job: _Job, todo: Plan, engine: Engine, tell: Callable[[int, int], None]) -> pa.Table:
    records = job.staging.records(todo.todo)
    done = records.filter(pc.is_valid(records["sha256"]))["path"].to_pylist()
    left = [task._asdict() for task in todo.todo if task.path not in set(done)]
    tell(count := len(done), len(todo.todo))
    for computed_now in engine(pa.Table.from_pylist(left, TASKS), job.staging.folder):
        tell(count := count + computed_now, len(todo.todo))
    return job.staging.records(todo.todo)


def _refuse_empty(job: _Job, files: pa.Table) -> None:
    if files.num_rows == quarantine(files).num_rows:
        first = files["error"][0].as_py()
        job.data.discard()
        raise RecomposeError(f"none of the {files.num_rows} files in {job.place.name!r} can be used: {first}")


def _write(job: _Job, draft: Path, files: pa.Table, new: pa.Table, gone: Iterable[str]) -> None:
    touched = [*new["path"].to_pylist(), *gone]
    changed = {shard_of(path) for path in touched} if job.continues else set(range(SHARDS))
    staging = job.staging
    shards = [
        _merged(job, draft, shard, touched, staging.features(shard, new))
        if shard in changed
        else _shared(job, draft, shard)
        for shard in range(SHARDS)
    ]
    pq.write_table(files, draft / "files.parquet")
    pq.write_table(quarantine(files), draft / "quarantine.parquet")
    if touched or not job.same_index():
        job.recipe.write_index(pa.concat_tables(shards).sort_by(ORDER), draft / INDEX)
    else:
        share(job.data.current / INDEX, draft / INDEX)


def _merged(job: _Job, draft: Path, shard: int, touched: list[str], new: pa.Table) -> pa.Table:
    """Writes one part of the features anew."""
    part = pa.concat_tables([without(job.features_before(shard), touched), new]).sort_by(ORDER)
    if part.num_rows:
        (draft / _part(shard)).parent.mkdir(parents=True)
        pq.write_table(part, draft / _part(shard))
    return part


def _shared(job: _Job, draft: Path, shard: int) -> pa.Table:
    """Takes one part over, as nothing in it changed."""
    before = job.features_before(shard)
    if before.num_rows:
        share(job.data.current / _part(shard), draft / _part(shard))
    return before


def _part(shard: int) -> str:
    return f"features/shard={shard}/part.parquet"


def _content(job: _Job, draft: Path, files: pa.Table) -> dict[str, Any]:
    written = sorted(path for path in draft.rglob("*") if path.is_file() and path.name != MANIFEST)
    checksums = {path.relative_to(draft).as_posix(): sha256(path.read_bytes()).hexdigest() for path in written}
    counts = {
        "files": files.num_rows,
        "quarantined": quarantine(files).num_rows,
        "rows": sum(files["rows"].to_pylist()),
    }
    versions = {"python": platform.python_version()} | {name: version_of(name) for name in MADE_WITH}
    return {"folder": job.place.name, "counts": counts, "sha256": checksums, "made_with": versions, **job.parameters}


def _report(manifest: dict[str, Any], todo: Plan, computed: int) -> Ingested:
    counts = manifest["counts"]
    kept = len(todo.kept) + len(todo.todo) - computed
    return Ingested(manifest["version"], computed, kept, len(todo.gone), counts["quarantined"], counts["rows"])
