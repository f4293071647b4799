"""Ferret: content-based image search as a pipeline, after the program of that name in PARSEC 3.

Bienia 2011, "Benchmarking Modern Multiprocessors" (Princeton), section 2.3.6; the program is Lv, Josephson, Wang,
Charikar and Li 2006, "Ferret: A Toolkit for Content-Based Similarity Search of Feature-Rich Data" (EuroSys). With the
same projections the answers are the original's.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from apps.contract import App
from apps.data_sets.reader import Reader, Searched, Unversioned
from apps.data_sets.versions import read_manifest
from apps.ferret.database import KIND, Database, load_database
from apps.ferret.extract import extract, segment
from apps.ferret.load import decode_photo, read_photo
from apps.ferret.loops.kernels import Kernel, load_kernel
from apps.ferret.lsh import Projections, draw_projections, load_projections
from apps.ferret.options import FerretOptions
from apps.ferret.values import SIDE, Candidates, Photo, Ranking, Regions, Signature, Unreadable, list_photos
from apps.samples import sample_photos
from compositions.errors import RecomposeError
from compositions.model import Stage


def images_of(options: FerretOptions) -> Path:
    """Return the folder of the photos to search in."""
    return options.images.expanduser() if options.images else sample_photos(options.samples)


def queries_of(options: FerretOptions) -> Path:
    """Return the folder of the photos. Raises: RecomposeError if only a database is given and its photos are gone."""
    if options.queries:
        return options.queries.expanduser()
    if not options.database:
        return images_of(options)
    place = options.database.expanduser()
    if place.is_file():
        raise RecomposeError(f"database {str(place)!r} does not record its photos' folder; set option queries")
    folder = Path(read_manifest(place, KIND)["folder"])
    if not folder.is_dir():
        raise RecomposeError(f"the database's photos are no longer in {str(folder)!r}; set option queries to a folder")
    return folder


def read_queries(place: Path) -> Iterator[Photo | Unreadable]:
    """Return the photos of a folder, or a single one. Raises: RecomposeError if there is none."""
    for name, photo in list_photos(place):
        try:
            yield read_photo(photo, name)
        except RecomposeError as error:
            yield Unreadable(name, str(error))


def pushed_query(value: Any) -> Photo:
    """Return the query in a pushed ``{"query": NAME, "image": BASE64}``, the bytes of a JPEG, PNG … file."""
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


if TYPE_CHECKING:
    from apps.ferret.data_set import RegionRecipe

Databases = Reader[Database] | Unversioned[Database]


def searched(options: FerretOptions) -> Searched[Database]:
    projections = cache(partial(projections_of, options))
    recipe, folder = partial(recipe_of, options), partial(images_of, options)
    return Searched(KIND, options.database, folder, recipe, load_database, lambda: projections().fingerprint)


def recipe_of(options: FerretOptions) -> RegionRecipe:
    """Return the recipe of a database, with the compiled kernel by default; both kernels give the same."""
    from apps.ferret.data_set import RegionRecipe  # Arrow, which workers do not need

    kernel = options.kernel if "kernel" in options.model_fields_set else "fast"
    return RegionRecipe(partial(images_of, options), cache(partial(projections_of, options)), kernel)


def projections_of(options: FerretOptions) -> Projections:
    path = options.projections
    return load_projections(path.expanduser()) if path else draw_projections()


INPUT_CLASSES = {"test": 1, "small": 16, "medium": 64, "large": 256, "huge": 3_500}
"""Numbers of queries, as in PARSEC: test, simsmall, simmedium, simlarge and native (50 results for each query)."""
NEAR_PER_RESULT = 2
"""Number of near regions kept per query region, for each requested image: the original's ratio."""


class Ferret(App):
    """Stages segment, extract, vectorize, rank; the source loads and scales the photos."""

    name = "ferret"
    description = "Finds the images of a database that look like a query image (PARSEC Ferret)."
    stages = (Stage("segment"), Stage("extract"), Stage("vectorize"), Stage("rank"))
    options_model = FerretOptions
    input_classes = INPUT_CLASSES
    options: FerretOptions
    _databases: Databases
    _kernel: Kernel

    def prepare(self) -> None:
        """Bring the database up to date with its photos."""
        searched(self.options).prepare()
        if self.options.kernel == "fast":
            self.setup()  # compiles here once for the machine, instead of in all workers at the same time

    def setup(self) -> None:
        self._kernel = load_kernel(self.options.kernel)
        self._databases = searched(self.options).open()
        self._warm_up()

    def data_set(self) -> RegionRecipe:
        return recipe_of(self.options)

    def _warm_up(self) -> None:
        """Load the compiled loops and the index in advance, not with the first item."""
        blank = np.zeros((SIDE, SIDE, 3), np.uint8)
        own = self._databases.newest()[1].features[:1]
        signature = self.extract(self.segment(Photo("", blank, blank)))
        self.rank(self.vectorize(signature._replace(weights=np.ones(1, np.float32), features=own)))

    def items(self, path: Path | None) -> Iterator[Photo | Unreadable]:
        """Yield the query photos in the order of their paths; a file that is not a picture becomes a dead letter."""
        return read_queries(path.expanduser() if path else queries_of(self.options))

    def from_json(self, value: Any) -> Photo:
        return pushed_query(value)

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
        """Return the nearest ``top_k`` candidates; equally near ones are in the order of the database."""
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
        """Return the result with distances to six significant digits, as in the original."""
        matches = [{"image": image, "distance": float(f"{distance:g}")} for image, distance in value.matches]
        return {"query": value.query, "matches": matches}
