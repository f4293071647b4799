"""Ferret: content-based image search as a pipeline, after the program of that name in PARSEC 3.

Bienia 2011, "Benchmarking Modern Multiprocessors" (Princeton), section 2.3.6; the program is Lv, Josephson, Wang,
Charikar and Li 2006, "Ferret: A Toolkit for Content-Based Similarity Search of Feature-Rich Data" (EuroSys). With the
same projections the answers are the original's.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field, model_validator

from apps.contract import App, Options
from apps.data_sets.own import Searched
from apps.data_sets.reader import Fixed, Reader
from apps.data_sets.versions import read_manifest
from apps.ferret.database import KIND, Database, load_database
from apps.ferret.extract import extract
from apps.ferret.kernels import Kernel, KernelName, load_kernel
from apps.ferret.load import decode_photo, read_photo
from apps.ferret.lsh import Projections, draw_projections, load_projections
from apps.ferret.photos import list_photos
from apps.ferret.segment import segment
from apps.ferret.values import SIDE, Candidates, Photo, Ranking, Regions, Signature, Unreadable
from apps.samples import sample_photos
from compositions.errors import RecomposeError
from compositions.model import Stage

if TYPE_CHECKING:
    from apps.ferret.data_set import RegionRecipe

NEAR_PER_RESULT = 2
"""Near regions kept for every query region, per image asked for: the original's ratio."""


class FerretOptions(Options):
    """What to search, for what, and how."""

    images: Path | None = Field(
        default=None, description="Folder of database photos, with subfolders; none: sample photos"
    )
    database: Path | None = Field(
        default=None, description="Data set of recompose ingest, followed while running; in place of images"
    )
    queries: Path | None = Field(
        default=None, description="Folder of query photos; none: the database photos themselves"
    )
    top_k: int = Field(default=10, ge=1, le=1000, description="Images in an answer, at most")
    kernel: KernelName = Field(
        default="exact", description="exact: plain Python; fast: compiled, with the same answers"
    )
    projections: Path | None = Field(
        default=None, description="npz of alpha, beta, rnd, W, H; none: drawn from a fixed seed"
    )

    @model_validator(mode="after")
    def _one_database(self) -> FerretOptions:
        if self.database and (self.images or self.projections):
            raise ValueError(f"database {str(self.database)!r} brings its own images and projections; leave those out")
        return self


class Ferret(App):
    """Stages segment, extract, vectorize, rank; the source loads and scales the photos."""

    name = "ferret"
    description = "Finds the images of a database that look like a query image (PARSEC Ferret)."
    stages = (Stage("segment"), Stage("extract"), Stage("vectorize"), Stage("rank"))
    options_model = FerretOptions
    options: FerretOptions
    _databases: Reader[Database] | Fixed[Database]
    _kernel: Kernel

    def prepare(self) -> None:
        """Brings the database up to date with its photos."""
        self._searched().prepare()
        if self.options.kernel == "fast":
            self.setup()  # compiles here, once for the machine, and not in all workers at the same time

    def setup(self) -> None:
        self._kernel = load_kernel(self.options.kernel)
        self._databases = self._searched().open()
        self._warm_up()

    def data_set(self) -> RegionRecipe:
        from apps.ferret.data_set import RegionRecipe  # Arrow: workers do not need it

        kernel = self.options.kernel if "kernel" in self.options.model_fields_set else "fast"
        return RegionRecipe(self._images, lambda: self._projections, kernel)

    def _searched(self) -> Searched[Database]:
        named, key = self.options.database, lambda: self._projections.fingerprint
        return Searched(KIND, named, self._images, self.data_set, load_database, key)

    def _warm_up(self) -> None:
        """Compiled loops and the index come into being with their first use: here, and not in the first item."""
        blank = np.zeros((SIDE, SIDE, 3), np.uint8)
        own = self._databases.newest()[1].features[:1]
        signature = self.extract(self.segment(Photo("", blank, blank)))
        self.rank(self.vectorize(signature._replace(weights=np.ones(1, np.float32), features=own)))

    def items(self, path: Path | None) -> Iterator[Photo | Unreadable]:
        """The query photos in the order of their paths. A file that is no picture becomes a dead letter, not an end."""
        for name, photo in list_photos(path.expanduser() if path else self._queries()):
            try:
                yield read_photo(photo, name)
            except RecomposeError as error:
                yield Unreadable(name, str(error))

    def from_json(self, value: Any) -> Photo:
        """A pushed query: ``{"query": NAME, "image": BASE64}``, the bytes of a JPEG, PNG … file."""
        if not isinstance(value, dict) or not all(isinstance(value.get(key), str) for key in ("query", "image")):
            raise ValueError('a Ferret item is {"query": NAME, "image": BASE64 of a JPEG, PNG or other picture file}')
        try:
            data = base64.b64decode(value["image"], validate=True)
        except ValueError as error:
            raise ValueError(f"image of query {value['query']!r} is not base64: {error}") from error
        try:
            return decode_photo(data, value["query"])
        except RecomposeError as error:
            raise ValueError(str(error)) from error

    def segment(self, photo: Photo | Unreadable) -> Regions:
        if isinstance(photo, Unreadable):
            raise RecomposeError(photo.reason)
        return Regions(photo.name, photo.hsv, segment(photo.rgb, self._kernel))

    def extract(self, regions: Regions) -> Signature:
        return Signature(regions.name, *extract(regions.hsv, regions.labels, self._kernel))

    def vectorize(self, signature: Signature) -> Candidates:
        version, database = self._databases.newest()
        near = database.index.near(signature.features, NEAR_PER_RESULT * self.options.top_k)
        return Candidates(signature, database.owners(near), version)

    def rank(self, candidates: Candidates) -> Ranking:
        """The nearest ``top_k`` candidates; of equally near ones the earlier in the database comes first."""
        signature, images, version = candidates
        database = self._databases.version(version)
        weights, features, starts = database.regions_of(images)
        take = self._kernel.sequence
        mine = take(signature.weights.astype(float)), take(signature.features.astype(float).ravel())
        theirs = take(weights.astype(float)), take(features.astype(float).ravel()), take(starts)
        distances = take(np.zeros(len(images)))
        self._kernel.distances(*mine, *theirs, distances)
        nearest = sorted(zip(distances, images.tolist(), strict=True))[: self.options.top_k]
        return Ranking(signature.name, tuple((database.names[image], float(d)) for d, image in nearest))

    def encode_result(self, value: Ranking) -> dict[str, Any]:
        """Distances with six significant digits, as the original prints them."""
        matches = [{"image": image, "distance": float(f"{distance:g}")} for image, distance in value.matches]
        return {"query": value.query, "matches": matches}

    def _images(self) -> Path:
        return self.options.images.expanduser() if self.options.images else sample_photos()

    def _queries(self) -> Path:
        """Raises: RecomposeError when only a database is given and the photos it was made of are gone."""
        if self.options.queries:
            return self.options.queries.expanduser()
        if not self.options.database:
            return self._images()
        place = self.options.database.expanduser()
        if place.is_file():
            raise RecomposeError(f"{str(place)!r} does not tell its photos; give queries, a folder")
        folder = Path(read_manifest(place, KIND)["folder"])
        if not folder.is_dir():
            raise RecomposeError(f"the database's photos are no longer in {str(folder)!r}; give queries, a folder")
        return folder

    @cached_property
    def _projections(self) -> Projections:
        path = self.options.projections
        return load_projections(path.expanduser()) if path else draw_projections()
