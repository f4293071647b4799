"""Ferret's data set: features of every region of every photo, and the database file that workers open."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from apps.ferret.database import FORMAT, KIND, PARAMETERS, Database
from apps.ferret.extract import extract, segment
from apps.ferret.load import decode_photo
from apps.ferret.loops.kernels import KernelName, load_kernel
from apps.ferret.lsh import Projections
from apps.ferret.values import FEATURES, SUFFIXES, Floats

ROWS = 1
"""Version of the features: to be raised whenever stages find others."""


class RegionRecipe:
    """Rows are regions, with fourteen features each. Both kernels find the same, so the kernel is no parameter."""

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

    def write_index(self, rows: pa.Table, place: Path) -> None:
        database_of(rows, self._projections()).save(place)


def database_of(rows: pa.Table, projections: Projections) -> Database:
    """The images in the order of their paths, folder by folder."""
    paths = rows["path"].to_numpy()
    firsts = np.flatnonzero(np.concatenate(([True], paths[1:] != paths[:-1])))
    sizes = np.diff(np.append(firsts, len(paths)))
    order = sorted(range(len(firsts)), key=lambda image: paths[firsts[image]].split("/"))
    taken = np.concatenate([np.arange(firsts[image], firsts[image] + sizes[image]) for image in order])
    starts = np.concatenate(([0], np.cumsum(sizes[order])))
    weights: Floats = rows["weight"].to_numpy()[taken]
    flat = rows["features"].combine_chunks().flatten().to_numpy()
    features: Floats = flat.reshape(-1, FEATURES)[taken]
    return Database(display_names([paths[firsts[image]] for image in order]), starts, weights, features, projections)


def display_names(paths: Sequence[str]) -> tuple[str, ...]:
    """File names; paths where several have the same one."""
    names = [path.rsplit("/", 1)[-1] for path in paths]
    times = Counter(names)
    return tuple(name if times[name] == 1 else path for name, path in zip(names, paths, strict=True))
