"""Ferret's vectorize stage: find the database regions near a query's, by locality-sensitive hashing.

Datar, Immorlica, Indyk and Mirrokni 2004, "Locality-Sensitive Hashing Scheme Based on p-Stable Distributions", section
3: h(x) = floor((a·x + b)/W) with normally distributed a and b uniform in [0, W). One table joins 17 such hashes into a
bucket number. The original program names a multi-probe option but never reads it, so one bucket a table is looked into.
"""

from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from apps.ferret.values import FEATURES, Floats, Ints
from compositions.errors import RecomposeError

TABLES = 8
"""Number of tables used; further ones of the projections stay unused, as in the original."""

HASHES = 17
WIDTH = 4.0708  # of a hash's slots, in units of the feature space
BUCKETS = 19_697  # of a table: some per region, for a database of thousands of regions
TURN = 1024
"""Regions whose products with all projections are held in memory at a time: 4 MB."""
F32 = np.float32


class Projections(NamedTuple):
    """``alpha`` (tables·hashes, 14), ``beta`` (tables·hashes,), ``mixers`` (tables, hashes), ``width`` (tables,)."""

    alpha: Floats
    beta: Floats
    mixers: NDArray[np.uint32]
    width: Floats
    buckets: int

    @property
    def fingerprint(self) -> str:
        """Return a hash of the projections, in hexadecimal digits."""
        digest = sha256(str(self.buckets).encode())
        for array in self[:-1]:
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def bucket_numbers(self, features: Floats) -> NDArray[np.int32]:
        """Return (regions, tables): the bucket of each region in each table, 0 … buckets − 1."""
        numbers = np.empty((len(features), len(self.mixers)), np.int32)
        for at in range(0, len(features), TURN):
            numbers[at : at + TURN] = self._bucket_numbers(features[at : at + TURN])
        return numbers

    def _bucket_numbers(self, features: Floats) -> Ints:
        products = np.zeros((len(features), len(self.alpha)), F32)
        for feature in range(FEATURES):  # one after the other, as single-precision C code adds them
            products += features[:, feature : feature + 1] * self.alpha[:, feature]
        slots = np.floor((products + self.beta) / np.repeat(self.width, self.mixers.shape[1])).astype(np.int64)
        mixed = (slots.reshape(len(features), *self.mixers.shape) * self.mixers.astype(np.int64)).sum(axis=2)
        numbers: Ints = mixed % 2**32 % self.buckets
        return numbers


def draw_projections(seed: int = 0) -> Projections:
    """Draw projections of 8 tables from a seed."""
    random = np.random.default_rng(seed)
    count = TABLES * HASHES
    alpha = random.standard_normal((count, FEATURES)).astype(F32)
    beta = random.uniform(0, WIDTH, count).astype(F32)
    mixers = random.integers(0, 2**31, (TABLES, HASHES)).astype(np.uint32)
    return Projections(alpha, beta, mixers, np.full(TABLES, WIDTH, F32), BUCKETS)


def load_projections(path: Path) -> Projections:
    """Read projections from an npz file with ``alpha``, ``beta``, ``rnd``, ``W`` and ``H``, of 8 tables or more.
    Raises: RecomposeError if the file cannot be read or its arrays do not fit together."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            alpha, beta, mixers, width, buckets = (data[key] for key in ("alpha", "beta", "rnd", "W", "H"))
            return first_tables(alpha, beta, mixers, width, int(buckets))
    except (OSError, ValueError, KeyError, TypeError, IndexError, EOFError, BadZipFile) as error:
        raise RecomposeError(
            f"{str(path)!r} holds no projections ({error}); give an npz file with alpha (tables·hashes, {FEATURES}), "
            f"beta, rnd (tables, hashes), W (tables) and H, of at least {TABLES} tables"
        ) from error


def first_tables(
    alpha: NDArray[np.float32],
    beta: NDArray[np.float32],
    mixers: NDArray[np.uint32],
    width: NDArray[np.float32],
    buckets: int,
) -> Projections:
    """Return the 8 tables that are used. Raises: ValueError if the shapes do not fit together."""
    tables, hashes = mixers.shape
    fits = alpha.shape == (tables * hashes, FEATURES) and beta.shape == (tables * hashes,) and width.shape == (tables,)
    if not fits or tables < TABLES or buckets < 1:
        raise ValueError(f"alpha {alpha.shape}, beta {beta.shape}, rnd {mixers.shape}, W {width.shape}, H {buckets}")
    used = TABLES * hashes
    return Projections(
        alpha[:used].astype(F32), beta[:used].astype(F32), mixers[:TABLES].astype(np.uint32), width[:TABLES], buckets
    )


class Buckets(NamedTuple):
    """(tables, regions) each: the regions of a table by bucket number, and those numbers, ascending."""

    order: NDArray[np.int32]
    numbers: NDArray[np.int32]


class RegionIndex:
    """The database's regions, found by bucket."""

    def __init__(self, features: Floats, projections: Projections, buckets: Buckets) -> None:
        self._features = features
        self._projections = projections
        self._order, self._sorted = buckets

    def near(self, features: Floats, keep: int) -> Ints:
        """Return the ``keep`` regions nearest to each given one among those in its buckets; ascending, once each."""
        numbers = self._projections.bucket_numbers(features).T
        bounds = [
            (np.searchsorted(table, wanted, "left"), np.searchsorted(table, wanted, "right"))
            for table, wanted in zip(self._sorted, numbers, strict=True)
        ]
        found = [np.empty(0, np.int64)]
        for region, feature in enumerate(features):
            shared = [order[low[region] : high[region]] for order, (low, high) in zip(self._order, bounds, strict=True)]
            found.append(self._nearest(np.unique(np.concatenate(shared)), feature, keep))
        return np.unique(np.concatenate(found))

    def _nearest(self, regions: Ints, feature: Floats, keep: int) -> Ints:
        if len(regions) <= keep:
            return regions
        apart = self._features[regions].astype(np.float64) - feature
        return regions[np.argsort((apart * apart).sum(axis=1), kind="stable")[:keep]]
