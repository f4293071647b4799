"""Ferret's data set: features of every region of every photo, and the database file that workers open."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from apps.data_sets.npz import Streamed
from apps.data_sets.rows import TURN_ROWS, Rows
from apps.ferret.database import FORMAT, KIND, PARAMETERS, Regions, save, starts_of
from apps.ferret.extract import extract, segment
from apps.ferret.load import decode_photo
from apps.ferret.loops.kernels import KernelName, load_kernel
from apps.ferret.lsh import Projections
from apps.ferret.values import FEATURES, SUFFIXES, Ints

ROWS = 1
"""Version of the features; raise it with any change of the stages' results."""


class RegionRecipe:
    """A recipe whose rows are regions with 14 features each. The kernel is no parameter, as both give the same."""

    kind = KIND
    suffixes = SUFFIXES
    columns = pa.schema([("weight", pa.float32()), ("features", pa.list_(pa.float32()))])

    def __init__(
        self, folder: Callable[[], Path], projections: Callable[[], Projections], kernel: KernelName = "fast"
    ) -> None:
        self._folder, self._projections, self._kernel = folder, projections, kernel
        self.parameters = {"rows": ROWS, **PARAMETERS}

    @property
    def index_parameters(self) -> dict[str, Any]:
        return {"format": FORMAT, "projections": self._projections().fingerprint}

    @property
    def folder(self) -> Path:
        return self._folder()

    def rows(self, path: str, data: bytes) -> list[dict[str, Any]]:
        kernel = load_kernel(self._kernel)
        photo = decode_photo(data, path)
        weights, features = extract(photo.hsv, segment(photo.rgb, kernel), kernel)
        return [{"weight": weight, "features": row} for weight, row in zip(weights, features, strict=True)]

    def write_index(self, rows: Rows, place: Path) -> None:
        """Write the index; the images are in the order of their paths, folder by folder."""
        sizes = rows.files["rows"].to_numpy()
        order = pc.sort_indices(pc.replace_substring(rows.files["path"], "/", "\0")).to_numpy()
        names = display_names(rows.files["path"].combine_chunks().take(pa.array(order)))
        starts = starts_of(sizes[order])
        firsts = np.empty(len(order), np.int64)
        firsts[order] = starts[:-1]
        kind = np.dtype(f"<U{pc.max(pc.utf8_length(names)).as_py()}")
        turns = (names[at : at + TURN_ROWS] for at in range(0, len(names), TURN_ROWS))
        texts = Streamed("names", kind, (len(names),), (np.array(some.to_pylist(), kind) for some in turns))
        save(place, texts, starts, _regions(rows, firsts, starts_of(sizes)), self._projections())


def _regions(rows: Rows, firsts: Ints, starts: Ints) -> Iterator[Regions]:
    """Yield regions side by side: image ``k`` has its regions from ``firsts[k]`` on, in ``rows`` from ``starts[k]``."""
    seen = 0
    for some in rows:
        images = np.searchsorted(starts, np.arange(seen, seen := seen + some.num_rows), "right") - 1
        places = firsts[images] + some["row"].to_numpy()
        weights = some["weight"].to_numpy()
        features = some["features"].combine_chunks().flatten().to_numpy().reshape(-1, FEATURES)
        cuts = [0, *(np.flatnonzero(np.diff(places) != 1) + 1), len(places)]
        for begin, end in pairwise(cuts):
            yield int(places[begin]), weights[begin:end], features[begin:end]


def display_names(paths: pa.Array) -> pa.Array:
    """Return the files' names, or their paths if names occur more than once."""
    names = pc.replace_substring_regex(paths, "(?s).*/", "")
    counts = names.value_counts()
    often = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    return pc.if_else(pc.is_in(names, often), paths, names)
