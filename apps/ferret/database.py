"""Ferret's database: the signatures of a folder of photos and their index, kept as one npz file."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from apps.ferret.extract import FEATURE_WEIGHTS, extract
from apps.ferret.kernels import load_kernel
from apps.ferret.load import read_photo
from apps.ferret.lsh import Projections, RegionIndex
from apps.ferret.photos import list_photos
from apps.ferret.segment import COMPLEXITY, SMALLEST, segment
from apps.ferret.values import SIDE, Floats, Ints, Signature, Unreadable
from apps.samples import cache_dir
from compositions.errors import RecomposeError

FORMAT = 1
"""Version of the file and of the features in it: to be raised whenever either changes."""

PARAMETERS = {"side": SIDE, "complexity": COMPLEXITY, "smallest": SMALLEST, "weights": FEATURE_WEIGHTS.tolist()}
ARRAYS = ("starts", "weights", "features")
log = logging.getLogger("recompose.ferret")


@dataclass(frozen=True)
class Database:
    """``starts`` (images + 1,): image k's regions are ``starts[k]`` up to ``starts[k + 1]`` of the arrays."""

    names: tuple[str, ...]
    starts: Ints
    weights: Floats
    features: Floats
    projections: Projections
    manifest: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, signatures: Sequence[Signature], projections: Projections, **manifest: Any) -> Database:
        """A database of these images, in this order."""
        starts = np.cumsum([0] + [len(signature.weights) for signature in signatures])
        weights = np.concatenate([signature.weights for signature in signatures])
        features = np.concatenate([signature.features for signature in signatures])
        names = tuple(signature.name for signature in signatures)
        return cls(names, starts, weights, features, projections, manifest)

    @cached_property
    def index(self) -> RegionIndex:
        return RegionIndex(self.features, self.projections)

    def owners(self, regions: Ints) -> Ints:
        """The images that these regions belong to, ascending, once each."""
        return np.unique(np.searchsorted(self.starts, regions, "right") - 1)

    def regions_of(self, images: Ints) -> tuple[Floats, Floats, Ints]:
        """Weights, features and starts of some images alone."""
        sizes = self.starts[images + 1] - self.starts[images]
        starts = np.concatenate(([0], np.cumsum(sizes)))
        rows = np.arange(starts[-1]) + np.repeat(self.starts[images] - starts[:-1], sizes)
        return self.weights[rows], self.features[rows], starts

    def save(self, path: Path) -> None:
        """Writes the file whole or not at all, so that no reader ever meets half of one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, Any] = {key: getattr(self, key) for key in ARRAYS} | self.projections._asdict()
        handle, draft = tempfile.mkstemp(suffix=".npz", prefix=path.stem, dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, manifest=json.dumps(self.manifest), names=np.array(self.names), **arrays)
            Path(draft).replace(path)
        finally:
            Path(draft).unlink(missing_ok=True)


def load_database(path: Path) -> Database:
    """Reads what ``save`` wrote. Raises: RecomposeError when the file is missing, damaged or of another version."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            manifest = json.loads(str(data["manifest"]))
            if manifest["format"] != FORMAT or manifest["parameters"] != PARAMETERS:
                raise ValueError(f"it was built by another version, {manifest['format']} and not {FORMAT}")
            projections = Projections._make(data[key] for key in Projections._fields)
            projections = projections._replace(buckets=int(projections.buckets))
            starts, weights, features = (data[key] for key in ARRAYS)
            return Database(tuple(data["names"].tolist()), starts, weights, features, projections, manifest)
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
        raise RecomposeError(
            f"{str(path)!r} is no Ferret database ({error}); give a file that Ferret built, or a folder of photos "
            "with the option images"
        ) from error


def build_database(folder: Path, projections: Projections) -> Database:
    """Loads, segments and extracts every photo of a folder; unreadable ones are logged, noted and left out.

    Raises: RecomposeError when no photo of the folder can be read.
    """
    photos = list_photos(folder)
    log.info("building the image database of %d photos in %s", len(photos), folder)
    load_kernel("fast")  # not first in several threads
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda photo: signature_of(*photo), photos))
    signatures = [signature for signature in found if isinstance(signature, Signature)]
    skipped = {photo.name: photo.reason for photo in found if isinstance(photo, Unreadable)}
    for reason in skipped.values():
        log.warning("left out of the image database: %s", reason)
    if not signatures:
        raise RecomposeError(
            f"none of the {len(photos)} photos in {str(folder)!r} can be read: {next(iter(skipped.values()))}"
        )
    stamp = {"format": FORMAT, "parameters": PARAMETERS, "folder": str(folder.resolve()), "files": file_list(folder)}
    return Database.of(signatures, projections, **stamp, skipped=skipped)


def signature_of(name: str, path: Path) -> Signature | Unreadable:
    """The signature of a photo in a file. Both kernels find the same features, so the compiled one is taken."""
    kernel = load_kernel("fast")
    try:
        photo = read_photo(path, name)
    except RecomposeError as error:
        return Unreadable(name, str(error))
    return Signature(name, *extract(photo.hsv, segment(photo.rgb, kernel), kernel))


def file_list(folder: Path) -> list[list[Any]]:
    """[name, size in bytes, time of change in ns] of every photo: what shows whether a database is still current."""
    stats = [(name, path.stat()) for name, path in list_photos(folder)]
    return [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]


def database_path(folder: Path, projections: Projections) -> Path:
    """Where the database of a folder is kept: one file per folder, projections and version."""
    digest = sha256(json.dumps([FORMAT, PARAMETERS, str(folder.resolve()), projections.buckets]).encode())
    for array in projections[:-1]:
        digest.update(np.ascontiguousarray(array).tobytes())
    return cache_dir() / "ferret" / f"{digest.hexdigest()[:24]}.npz"


def current_database(folder: Path, projections: Projections) -> Database:
    """The kept database of a folder, built anew when there is none or a photo came, went or changed."""
    path = database_path(folder, projections)
    try:
        database = load_database(path)
        if database.manifest["files"] == file_list(folder):
            return database
    except RecomposeError:
        pass  # not there yet, or damaged: the same answer
    database = build_database(folder, projections)
    database.save(path)
    return database
