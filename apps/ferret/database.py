"""Ferret's database: the signatures of many photos and their index, kept as one npz file."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from apps.ferret.extract import COMPLEXITY, FEATURE_WEIGHTS, SMALLEST
from apps.ferret.lsh import Buckets, Projections, RegionIndex
from apps.ferret.values import SIDE, Floats, Ints, Signature
from compositions.errors import RecomposeError

KIND = "photos"
"""Of a data set that holds one."""
FORMAT = 2
"""Version of the file and of the features in it: to be raised whenever either changes."""

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
    buckets: Buckets | None = None
    """The index as it was saved; None: made of the features."""

    @classmethod
    def of(cls, signatures: Sequence[Signature], projections: Projections) -> Database:
        """A database of these images, in this order."""
        starts = np.cumsum([0] + [len(signature.weights) for signature in signatures])
        weights = np.concatenate([signature.weights for signature in signatures])
        features = np.concatenate([signature.features for signature in signatures])
        names = tuple(signature.name for signature in signatures)
        return cls(names, starts, weights, features, projections)

    @cached_property
    def index(self) -> RegionIndex:
        return RegionIndex(self.features, self.projections, self.buckets)

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
        """Writes the file whole or not at all, so that no reader ever meets half of one; others may read it who may
        read what lies beside it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, Any] = {key: getattr(self, key) for key in ARRAYS} | self.projections._asdict()
        arrays |= {f"index_{key}": array for key, array in self.index.buckets._asdict().items()}
        manifest = json.dumps({"format": FORMAT, "parameters": PARAMETERS})
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            draft = Path(folder) / path.name
            with draft.open("wb") as file:
                np.savez(file, manifest=manifest, names=np.array(self.names), **arrays)
            draft.replace(path)


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
            index = Buckets._make(data[f"index_{key}"] for key in Buckets._fields)
            return Database(tuple(data["names"].tolist()), starts, weights, features, projections, index)
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
        raise RecomposeError(
            f"{str(path)!r} is no Ferret database ({error}); give a data set that recompose ingest made, or a folder "
            "of photos with the option images"
        ) from error
