"""Options of all queries: the tables to read or to generate, and how rows travel."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field

from apps.contract import Options
from apps.tpcxbb import tables
from apps.tpcxbb.generate import NULL, Plan, item_table, web_page_table
from compositions.errors import RecomposeError

CATEGORY_BITS = 31
"""Bits of a category in the key of a daily sum, which combines a day and a category."""
PLACES, PLACES_OF_FEW = 10, 1_000_000
"""Maximum size of a table with a place for every possible key: places per existing key, plus a constant."""


class QueryOptions(Options):
    tables: str = Field(default="", description="Folder of the tables, Parquet or CSV; empty: generated from the seed")
    seed: int = Field(default=0, ge=0, description="Seed of the generated rows")
    rows: int = Field(default=100_000, ge=1, le=1_000_000_000, description="Number of generated rows")
    hours: float = Field(default=3.0, gt=0, le=100_000, description="Event time that generated rows cover, in hours")
    items: int = Field(default=18_000, ge=10, le=10_000_000, description="Different goods in the rows, by Zipf's law")
    users: int = Field(default=5_000, ge=1, le=100_000_000, description="Different users in the rows, by Zipf's law")
    partitions: int = Field(default=8, ge=1, le=100, description="Partitions of the keys, which workers share")
    tick_s: int = Field(default=60, ge=1, description="Event time between two ticks, which mark the stream's progress")
    portion: int = Field(default=4096, ge=1, le=1_000_000, description="Rows per item if items are portions of a table")

    @property
    def plan(self) -> Plan:
        return Plan(self.seed, self.rows, self.hours, self.items, self.users)


class Categories:
    """The category of each item, by key; NULL if the item does not exist or has no category."""

    def __init__(self, keys: NDArray[np.int64], categories: NDArray[np.int64]) -> None:
        order = np.argsort(keys, kind="stable")
        self._keys, self._categories = keys[order], categories[order]
        self._by_key: NDArray[np.int64] | None = None
        """Categories indexed by key, if the largest key is not much larger than the number of keys."""
        if (largest := int(keys.max(initial=0))) < PLACES * len(keys) + PLACES_OF_FEW:
            self._by_key = np.full(largest + 2, NULL, np.int64)
            self._by_key[keys] = categories

    def take(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        if self._by_key is not None:
            return self._by_key.take(items, mode="clip")
        place = np.minimum(np.searchsorted(self._keys, items), len(self._keys) - 1)
        return np.where(self._keys[place] == items, self._categories[place], NULL)

    def by_item(self) -> dict[int, int]:
        return dict(zip(self._keys.tolist(), self._categories.tolist(), strict=True))

    def among(self, wanted: Sequence[int]) -> "Categories":
        """Return the categories with only these values; other items have none."""
        chosen = np.isin(self._categories, wanted)
        return Categories(self._keys[chosen], self._categories[chosen])


def categories(options: QueryOptions) -> Categories:
    """Return the categories of the table of items. Raises: RecomposeError as ``tables.dimension``, and for keys and
    categories that the benchmark does not have."""
    table = _dimension(options, "item")
    table = table.filter(pc.is_valid(table["i_item_sk"]))
    keys = table["i_item_sk"].to_numpy()
    if len(keys) and keys.min() <= NULL:
        raise RecomposeError(f"table item has an item with key {keys.min()}; keys must be 1 or more")
    category = pc.fill_null(table["i_category_id"], NULL).to_numpy()
    if len(category) and not (category.min() >= NULL and category.max() < 1 << CATEGORY_BITS):
        strange = category.min() if category.min() < NULL else category.max()
        most = (1 << CATEGORY_BITS) - 1
        raise RecomposeError(f"table item has an item of category {strange}; categories must be from 1 to {most:,}")
    return Categories(keys, category)


def pages_of(options: QueryOptions, kind: str) -> frozenset[int]:
    """Return keys of the web pages of a type. Raises: RecomposeError as ``tables.dimension``."""
    table = _dimension(options, "web_page")
    pairs = zip(table["wp_web_page_sk"].to_pylist(), table["wp_type"].to_pylist(), strict=True)
    return frozenset(key for key, type_ in pairs if type_ == kind)


def _dimension(options: QueryOptions, name: str) -> pa.Table:
    if options.tables:
        return tables.dimension(Path(options.tables).expanduser(), name)
    return item_table(options.plan) if name == "item" else web_page_table()
