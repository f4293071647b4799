"""The tables of TPCx-BB that the queries read: names and types of their columns, and the columns that hold the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

DAY_S: Final = 86_400
PAGE_TYPES: Final = ("dynamic", "order", "protected", "feedback", "general", "ad", "welcome")
CATEGORIES: Final = 10
NULL: Final = 0
"""Stands for a missing key where columns are plain numbers; keys of the benchmark begin at 1."""


@dataclass(frozen=True)
class Stream:
    """A table whose rows are a stream: they are in the order of their date and time."""

    table: str
    date: str
    """Days."""
    time: str
    """Seconds of the day."""
    columns: pa.Schema


SALES = Stream(
    "store_sales", "ss_sold_date_sk", "ss_sold_time_sk",
    pa.schema(
        [
            *((name, pa.int64()) for name in (
                "ss_sold_date_sk", "ss_sold_time_sk", "ss_item_sk", "ss_customer_sk", "ss_store_sk",
                "ss_ticket_number", "ss_quantity",
            )),
            ("ss_net_paid", pa.float64()),
        ]
    ),
)  # fmt: skip
CLICKS = Stream(
    "web_clickstreams", "wcs_click_date_sk", "wcs_click_time_sk",
    pa.schema(
        [
            (name, pa.int64()) for name in (
                "wcs_click_date_sk", "wcs_click_time_sk", "wcs_sales_sk", "wcs_item_sk", "wcs_web_page_sk",
                "wcs_user_sk",
            )
        ]
    ),
)  # fmt: skip
ITEM = pa.schema([("i_item_sk", pa.int64()), ("i_category_id", pa.int64())])
WEB_PAGE = pa.schema([("wp_web_page_sk", pa.int64()), ("wp_type", pa.string())])
STREAMS: Final = {stream.table: stream for stream in (SALES, CLICKS)}
DIMENSIONS: Final = {"item": ITEM, "web_page": WEB_PAGE}
