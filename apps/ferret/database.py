"""Ferret's database: the signatures of many photos and their index, kept as one npz file."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from apps.data_sets.npz import Streamed, whole, write_npz
from apps.ferret.extract import COMPLEXITY, FEATURE_WEIGHTS, SMALLEST
from apps.ferret.lsh import F32, Buckets, Projections, RegionIndex
from apps.ferret.values import FEATURES, SIDE, Floats, Ints
from compositions.errors import RecomposeError

KIND = "photos"
"""The kind of a data set that has such a database."""
FORMAT = 2
"""Version of the file and its features; raise it when either changes."""

PARAMETERS = {"side": SIDE, "complexity": COMPLEXITY, "smallest": SMALLEST, "weights": FEATURE_WEIGHTS.tolist()}
ARRAYS = ("starts", "weights", "features")


@dataclass(frozen=True)
class Database:
    """``starts`` (images + 1,): image k's regions are ``starts[k]`` up to ``starts[k + 1]`` of the arrays."""

    names: tuple[str, ...]
    starts: Ints
    weights: Floats
    features: Floats
    projections: Projections
    buckets: Buckets
    """The index as it was saved."""

    @cached_property
    def index(self) -> RegionIndex:
        return RegionIndex(self.features, self.projections, self.buckets)

    def owners(self, regions: Ints) -> Ints:
        """Return the images that these regions belong to, each once, in ascending order."""
        return np.unique(np.searchsorted(self.starts, regions, "right") - 1)

    def regions_of(self, images: Ints) -> tuple[Floats, Floats, Ints]:
        """Return the weights, features and starts of some images."""
        sizes = self.starts[images + 1] - self.starts[images]
        starts = starts_of(sizes)
        rows = np.arange(starts[-1]) + np.repeat(self.starts[images] - starts[:-1], sizes)
        return self.weights[rows], self.features[rows], starts


def starts_of(sizes: Ints) -> Ints:
    """Return the start of each image's regions, and the end of the last."""
    return np.concatenate(([0], np.cumsum(sizes)))


@dataclass(frozen=True)
class Column:
    """An array in a file that is written and read in pieces."""

    file: Path
    kind: str
    width: int = 1

    def put(self, at: int, piece: NDArray[Any]) -> None:
        """Write rows from row ``at`` on."""
        with self.file.open("r+b" if self.file.exists() else "wb") as file:
            file.seek(at * self.width * np.dtype(self.kind).itemsize)
            file.write(piece.astype(self.kind, copy=False).tobytes())

    def __iter__(self) -> Iterator[NDArray[Any]]:
        with self.file.open("rb") as file:
            while data := file.read(TURN_ROWS * self.width * np.dtype(self.kind).itemsize):
                yield np.frombuffer(data, self.kind)


Regions = tuple[int, Floats, Floats]
"""The number of a region in the database, and the weights and features of this and the following regions."""
TURN_ROWS = 2**16
SORTED_ROWS = 2**18
"""Approximate number of regions that are sorted at a time."""


def save(path: Path, names: Streamed, starts: Ints, regions: Iterable[Regions], projections: Projections) -> None:
    """Write a database atomically, with the file permissions usual in its folder. ``regions`` may come in any order,
    and are never all in memory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent) as name:
        folder = Path(name)
        weights, features = Column(folder / "weights", "<f4"), Column(folder / "features", "<f4", FEATURES)
        numbers = [Column(folder / f"numbers{table}", "<i4") for table in range(len(projections.mixers))]
        for at, some_weights, some_features in regions:
            weights.put(at, some_weights)
            features.put(at, some_features)
            for column, table in zip(numbers, projections.bucket_numbers(some_features).T, strict=True):
                column.put(at, table)
        arrays = [
            whole("manifest", json.dumps({"format": FORMAT, "parameters": PARAMETERS})),
            names,
            whole("starts", starts),
            Streamed("weights", np.dtype(F32), (int(starts[-1]),), weights),
            Streamed("features", np.dtype(F32), (int(starts[-1]), FEATURES), features),
            *(whole(key, array) for key, array in projections._asdict().items()),
        ]
        write_npz(folder / path.name, chain(arrays, _index(numbers, int(starts[-1]))))
        (folder / path.name).replace(path)


def _index(numbers: Sequence[Column], regions: int) -> Iterator[Streamed]:
    """Yield the arrays of ``Buckets``; the second exists when the first has been written."""
    ordered = [Column(column.file.with_suffix(".sorted"), column.kind) for column in numbers]
    shape, kind = (len(numbers), regions), np.dtype(np.int32)
    yield Streamed("index_order", kind, shape, chain.from_iterable(map(_by_bucket, numbers, ordered)))
    yield Streamed("index_numbers", kind, shape, chain.from_iterable(ordered))


def _by_bucket(numbers: Column, ordered: Column) -> Iterator[Ints]:
    """Yield regions by their buckets' numbers, which go into ``ordered``, those of some buckets at a time."""
    least = min((int(piece.min()) for piece in numbers), default=0)
    most = max((int(piece.max()) for piece in numbers), default=0)
    step = (most - least) // 2**16 + 1
    counts = sum((np.bincount((piece - least) // step, minlength=2**16) for piece in numbers), np.zeros(2**16, int))
    cuts = np.flatnonzero(np.diff(np.cumsum(counts) // SORTED_ROWS)) + 1
    done = 0
    for low, high in pairwise([least, *(least + cuts * step), most + 1]):
        chosen = [np.flatnonzero((piece >= low) & (piece < high)) for piece in numbers]
        found = np.concatenate([at * TURN_ROWS + piece for at, piece in enumerate(chosen)])
        values = np.concatenate([piece[here] for piece, here in zip(numbers, chosen, strict=True)])
        order = np.argsort(values, kind="stable")
        ordered.put(done, values[order])
        done += len(order)
        yield found[order]


def load_database(path: Path) -> Database:
    """Read a database. Raises: RecomposeError if the file is missing, damaged or of another version."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            manifest = json.loads(str(data["manifest"]))
            if manifest["format"] != FORMAT or manifest["parameters"] != PARAMETERS:
                raise ValueError(f"it has format {manifest['format']}; this version reads format {FORMAT}")
            projections = Projections._make(data[key] for key in Projections._fields)
            projections = projections._replace(buckets=int(projections.buckets))
            starts, weights, features = (data[key] for key in ARRAYS)
            index = Buckets._make(data[f"index_{key}"] for key in Buckets._fields)
            return Database(tuple(data["names"].tolist()), starts, weights, features, projections, index)
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
        raise RecomposeError(
            f"{str(path)!r} is no Ferret database ({error}); give a data set that recompose ingest made, or a folder "
            "of photos with the option images"
        ) from error
