"""What all queries may be told: which tables, or what is to be made up, and how rows travel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from apps.contract import Options
from apps.tpcxbb import tables
from apps.tpcxbb.generate import Plan, item_table, web_page_table


class QueryOptions(Options):
    tables: str = Field(default="", description="Folder of the tables, Parquet or CSV; empty: made up from the seed")
    seed: int = Field(default=0, ge=0, description="Of what is made up")
    rows: int = Field(default=100_000, ge=1, le=1_000_000_000, description="Of what is made up")
    hours: float = Field(default=3.0, gt=0, le=100_000, description="Event time that these rows take")
    items: int = Field(default=18_000, ge=10, le=10_000_000, description="Goods among them, after Zipf")
    users: int = Field(default=5_000, ge=1, le=100_000_000, description="Users among them, after Zipf")
    partitions: int = Field(default=8, ge=1, le=64, description="Into which keys fall, and between which workers share")
    tick_s: int = Field(default=60, ge=1, description="Event time between two ticks, which tell how far the stream is")
    portion: int = Field(default=4096, ge=1, le=1_000_000, description="Rows in an item, where items are portions")

    @property
    def plan(self) -> Plan:
        return Plan(self.seed, self.rows, self.hours, self.items, self.users)


def categories(options: QueryOptions) -> NDArray[np.int64]:
    """Category of each item, by its key; 0: there is none. Raises: RecomposeError as ``tables.dimension``."""
    table = _dimension(options, "item")
    keys = table["i_item_sk"].to_numpy()
    by_key = np.zeros(int(keys.max(initial=0)) + 2, np.int64)
    by_key[keys] = table["i_category_id"].to_numpy()
    return by_key


def pages_of(options: QueryOptions, kind: str) -> frozenset[int]:
    """Keys of the web pages of a type. Raises: RecomposeError as ``tables.dimension``."""
    table = _dimension(options, "web_page")
    pairs = zip(table["wp_web_page_sk"].to_pylist(), table["wp_type"].to_pylist(), strict=True)
    return frozenset(key for key, type_ in pairs if type_ == kind)


def _dimension(options: QueryOptions, name: str) -> pa.Table:
    if options.tables:
        return tables.dimension(Path(options.tables).expanduser(), name)
    return item_table(options.plan) if name == "item" else web_page_table()
