"""The table of time windows, as functions of DataFrames, which batch and streaming queries share.

A row is for an app, a composition, the present SLO and a stage in one window of event time. Stage ``""`` is the item as
a whole, by its delivery; stage ``(input)`` counts arrivals. All sums are of whole numbers, so that they do not depend
on the order of records. SLO metrics: Leonarczyk, sections 4.3.1 and 4.3.2, with the SD distance as the text defines it
(|B| inside the root).
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

LENGTHS_S = (1, 10, 60)
KEYS = ("length_s", "start", "app", "composition", "target_us", "threshold", "stage")
SUMS = (
    "items", "failed", "shed", "value_sum", "cpu_sum", "hits", "batches", "batch_items", "batch_hits",
    "batch_item_hits", "distance_sum", "square_high", "square_low",
)  # fmt: skip
LIST = "values"
WHOLE, INPUT = "", "(input)"
PERCENTILES = (50, 95, 99)
BATCH = "batch"
"""Column with the micro-batch that wrote a row; of several rows of one window, the one with the highest is valid."""
LATE_S = 35
"""Maximum lateness of records that still count: 30 s, plus a file's two seconds and a margin."""
HALF = 1 << 30
"""Squares are summed in two halves of 30 bits, as one sum in whole numbers would overflow."""
FARTHEST_US = 2_000_000_000
"""Maximum distance (33 minutes) to which larger ones are reduced, so that the square fits."""


def observations(items: DataFrame) -> DataFrame:
    """Return one row for the arrival of each item, one for the item as a whole and one for each of its stages.
    ``value``: the item's latency in us, or a stage's wall time in ns; null for items that were not delivered."""
    delivered = F.col("outcome") == "delivered"
    latency_us = F.unix_micros("delivered") - F.unix_micros("arrived")
    none = F.lit(0).cast("bigint")
    arrival = F.struct(F.lit(INPUT).alias("stage"), none.alias("wall_ns"), none.alias("cpu_ns"))
    whole = F.struct(F.lit(WHOLE).alias("stage"), latency_us.alias("wall_ns"), none.alias("cpu_ns"))
    ran = F.when(delivered, F.col("stages"))
    parts = F.concat(F.array(arrival, whole), F.coalesce(ran, F.array().cast(items.schema["stages"].dataType)))
    rows = items.withColumn("part", F.explode(parts))
    is_input = F.col("part.stage") == INPUT
    at = F.when(is_input, F.col("arrived")).otherwise(F.col("delivered"))
    described = [F.when(~is_input, F.col(name)).alias(name) for name in ("composition", "target_us", "threshold")]
    return rows.select(
        F.unix_seconds(at).alias("second"), "app", *described, "outcome", "batch",
        F.col("part.stage").alias("stage"),
        F.when(delivered & ~is_input, F.col("part.wall_ns")).alias("value"),
        F.col("part.cpu_ns").alias("cpu_ns"),
    )  # fmt: skip


def contributions(rows: DataFrame) -> DataFrame:
    """Return the contribution of each observation to its window: columns ``SUMS`` and ``value``."""
    counted = ((F.col("outcome") == "delivered") | (F.col("stage") == INPUT)).cast("int")
    measured = (F.col("stage") == WHOLE) & F.col("value").isNotNull() & F.col("target_us").isNotNull()
    inside, within = slo_inside(), F.col("value") <= F.col("target_us") * (1 + F.col("threshold"))
    ends_batch = measured & (F.col("batch") > 0)
    far = F.least(F.abs(F.col("value") - F.col("target_us")), F.lit(FARTHEST_US))
    square = far * far
    added = {
        "items": counted,
        "failed": (F.col("outcome") == "failed").cast("int"),
        "shed": (F.col("outcome") == "shed").cast("int"),
        "value_sum": F.coalesce("value", F.lit(0)),
        "cpu_sum": F.coalesce("cpu_ns", F.lit(0)),
        "hits": (measured & within).cast("int"),
        "batches": ends_batch.cast("int"),
        "batch_items": F.when(ends_batch, F.col("batch")),
        "batch_hits": (ends_batch & inside).cast("int"),
        "batch_item_hits": F.when(ends_batch & inside, F.col("batch")),
        "distance_sum": F.when(ends_batch, far),
        "square_high": F.when(ends_batch, F.shiftright(square, 30)),
        "square_low": F.when(ends_batch, square.bitwiseAND(HALF - 1)),
    }
    sums = [F.coalesce(added[name], F.lit(0)).cast("bigint").alias(name) for name in SUMS]
    return rows.select("second", *KEYS[2:], *sums, "value")


def slo_inside() -> Column:
    """Return whether the latency lies in the band of the target, bounds included (Leonarczyk, B')."""
    value, target, threshold = F.col("value"), F.col("target_us"), F.col("threshold")
    return (value >= target * (1 - threshold)) & (value <= target * (1 + threshold))


def partial(rows: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Return the sums of contributions by ``keys``."""
    sums = [F.sum(name).alias(name) for name in SUMS]
    return rows.groupBy(*keys).agg(*sums, F.collect_list("value").alias(LIST))


def merged(rows: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    sums = [F.sum(name).alias(name) for name in SUMS]
    return rows.groupBy(*keys).agg(*sums, F.flatten(F.collect_list(LIST)).alias(LIST))


def finished(rows: DataFrame) -> DataFrame:
    """Return the table, from the sums and values of each window; times in ms, rates in items/s, fractions 0..1."""
    ordered = rows.withColumn(LIST, F.sort_array(LIST))
    whole, inner = F.col("stage") == WHOLE, ~F.col("stage").isin(WHOLE, INPUT)
    to_ms = F.when(whole, F.lit(1e3)).otherwise(F.lit(1e6))
    mean = F.try_divide(F.col("value_sum").cast("double"), F.size(LIST)) / to_ms
    figures = {"mean": mean} | {f"p{share}": percentile(F.col(LIST), share) / to_ms for share in PERCENTILES}
    latency = [F.when(whole, figure).alias(f"latency_{name}_ms") for name, figure in figures.items()]
    service = [F.when(inner, figure).alias(f"service_{name}_ms") for name, figure in figures.items()]
    cpu = F.try_divide(F.col("cpu_sum").cast("double"), F.size(LIST)) / 1e6
    return ordered.select(
        *KEYS[:1], F.timestamp_seconds("start").alias("start"), *KEYS[2:], "items", "failed", "shed",
        F.when(whole, F.col("items") / F.col("length_s")).alias("throughput_per_s"),
        F.when(F.col("stage") == INPUT, F.col("items") / F.col("length_s")).alias("input_rate_per_s"),
        *latency, *service, F.when(inner, cpu).alias("cpu_mean_ms"), *slo_columns(whole),
    )  # fmt: skip


def slo_columns(whole: Column) -> list[Column]:
    """Return the columns of SLO hits and distances; null without an SLO."""
    batches, target = F.col("batches").cast("double"), F.col("target_us")
    squares = F.col("square_high").cast("double") * HALF + F.col("square_low")
    shares = {
        "slo_hits": F.when(target.isNotNull(), F.col("hits")),
        "slo_hit_batched": F.try_divide(F.col("batch_hits").cast("double"), batches),
        "slo_hit_itemized": F.try_divide(F.col("batch_item_hits").cast("double"), F.col("batch_items").cast("double")),
        "mad_distance": F.try_divide(F.col("distance_sum").cast("double"), batches * target),
        "sd_distance": F.try_divide(F.sqrt(F.try_divide(squares, batches)), target.cast("double")),
    }
    return [F.when(whole, column).alias(name) for name, column in shares.items()]


def percentile(ordered: Column, share: int) -> Column:
    """Return the quantile of a sorted array, interpolated linearly (as numpy's default); null for an empty one."""
    place = (F.size(ordered) - 1) * F.lit(share / 100)
    below = F.floor(place).cast("int")
    low = F.get(ordered, below).cast("double")
    high = F.coalesce(F.get(ordered, below + 1).cast("double"), low)
    return low + (high - low) * (place - below)


def batch_table(items: DataFrame) -> DataFrame:
    """Return the whole table from the raw records: first windows of a second, then longer ones from these."""
    seconds = partial(contributions(observations(items)), ("second", *KEYS[2:]))
    return finished(merged(in_windows(seconds), KEYS))


def in_windows(rows: DataFrame) -> DataFrame:
    """Return each row once for every length of window, with the ``start`` of the window that contains its ``second``.
    Windows begin at multiples of their length since 1970."""
    lengths = F.explode(F.array(*[F.lit(length).cast("bigint") for length in LENGTHS_S]))
    start = F.col("second") - F.pmod(F.col("second"), F.col("length_s"))
    return rows.withColumn("length_s", lengths).withColumn("start", start)


def live_table(items: DataFrame) -> DataFrame:
    """Return the windows that changed. A window's state is dropped ``LATE_S`` after the end of the longest window that
    contains it. The watermark is on the window's end, which is up to a minute ahead of its records."""
    rows = in_windows(contributions(observations(items)))
    rows = rows.withColumn("end", F.timestamp_seconds(F.col("start") + F.col("length_s")))
    delay_s = LATE_S + max(LENGTHS_S)
    return finished(partial(rows.withWatermark("end", f"{delay_s} seconds"), (*KEYS, "end")))
