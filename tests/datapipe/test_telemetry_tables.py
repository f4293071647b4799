"""The tables of windows against plain Python, and the streaming job against the batch job."""

from __future__ import annotations

import math
import os
import random
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from telemetry_records import item, random_items, write

from datapipe.telemetry.store import TABLE, table
from datapipe.telemetry.tables import live, raw, start
from datapipe.telemetry.windows import KEYS, batch_table
from tests.support.waiting import eventually

LIMIT_S = 120.0


def rows(frame: Any) -> dict[tuple[Any, ...], dict[str, Any]]:
    """By key; a key that comes twice would be a row too many."""
    found = [row.asDict() for row in frame.drop("date").collect()]
    keyed = {tuple(row[key] for key in KEYS): row for row in found}
    assert len(keyed) == len(found)
    return keyed


def batch_rows(spark: Any, folder: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    return rows(batch_table(raw(spark, folder)))


def whole(table: dict[tuple[Any, ...], dict[str, Any]], app: str, length_s: int = 60) -> dict[str, Any]:
    (found,) = [row for row in table.values() if (row["app"], row["stage"], row["length_s"]) == (app, "", length_s)]
    return found


def batches(app: str, sizes_latencies: list[tuple[int, int]], target_us: int, threshold: float) -> list[dict[str, Any]]:
    """One record for each batch: the item that ends it."""
    slo = {"target_us": target_us, "threshold": threshold}
    pairs = enumerate(sizes_latencies)
    return [item(serial, serial, latency, app=app, batch=size, **slo) for serial, (size, latency) in pairs]


def test_the_thesis_example_of_hits_and_random_cases_against_plain_python(spark: Any, tmp_path: Path) -> None:
    """Leonarczyk, Table 4.2: five batches of 6 and five of 14; one row inside the band, the other outside. As printed,
    with |B| outside the root, four batches that are all 20 % off would be 10 % away by their standard deviation."""
    first = [(6, 3000)] * 5 + [(14, 9000)] * 5
    second = [(6, 9000)] * 5 + [(14, 3000)] * 5
    off = [(1, 1200), (1, 800), (1, 1200), (1, 800)]
    chance = random.Random(4)
    cases = {"first": (first, 3000, 0.05), "second": (second, 3000, 0.05), "off": (off, 1000, 0.1)}
    for number in range(300):
        target, threshold = chance.randrange(500, 10**6), chance.choice([0.05, 0.1, 0.2, 0.5])
        latencies = [max(1, round(target * chance.uniform(0.3, 2.0))) for _ in range(chance.randrange(1, 12))]
        latencies.append(round(target * (1 + threshold)))  # on the edge of the band, or a rounding beside it
        cases[f"case{number}"] = ([(chance.randrange(1, 300), each) for each in latencies], target, threshold)
    write(tmp_path, "x", [record for app, case in cases.items() for record in batches(app, *case)])
    windows = batch_rows(spark, tmp_path)
    found = {app: whole(windows, app) for app in cases}
    assert (found["first"]["slo_hit_batched"], found["first"]["slo_hit_itemized"]) == (0.5, 0.3)
    assert (found["second"]["slo_hit_batched"], found["second"]["slo_hit_itemized"]) == (0.5, 0.7)
    assert found["off"]["sd_distance"] == pytest.approx(0.2)
    for app, (pairs, target, threshold) in cases.items():
        row = found[app]
        inside = [(size, w) for size, w in pairs if target * (1 - threshold) <= w <= target * (1 + threshold)]
        assert row["slo_hit_batched"] == len(inside) / len(pairs)
        assert row["slo_hit_itemized"] == sum(s for s, _ in inside) / sum(s for s, _ in pairs)
        distance = statistics.mean(abs(target - w) for _, w in pairs) / target
        assert row["mad_distance"] == pytest.approx(distance, rel=1e-12)
        deviation = math.sqrt(statistics.mean((target - w) ** 2 for _, w in pairs)) / target
        assert row["sd_distance"] == pytest.approx(deviation, rel=1e-12)


def test_windows_against_numpy(spark: Any, tmp_path: Path) -> None:
    items = random_items(1, 3000, 95.0)
    write(tmp_path, "x", items)
    found = batch_rows(spark, tmp_path)
    for row in found.values():
        begin_us = round(row["start"].timestamp() * 1e6)
        end_us, instant = begin_us + row["length_s"] * 10**6, "arrived" if row["stage"] == "(input)" else "delivered"
        mine = [each for each in items if begin_us <= each[instant] < end_us and each["app"] == row["app"]]
        if row["stage"] == "(input)":
            assert row["items"] == len(mine)
            assert row["input_rate_per_s"] == len(mine) / row["length_s"]
            continue
        keys = ("composition", "target_us", "threshold")
        mine = [each for each in mine if all(each[key] == row[key] for key in keys)]
        delivered = [each for each in mine if each["outcome"] == "delivered"]
        assert row["items"] == len(delivered)
        if row["stage"] == "":
            assert row["failed"] == sum(each["outcome"] == "failed" for each in mine)
            assert row["shed"] == sum(each["outcome"] == "shed" for each in mine)
            expect(row, "latency", [(each["delivered"] - each["arrived"]) / 1e3 for each in delivered])
        else:
            stages = [stage for each in delivered for stage in each["stages"] if stage["stage"] == row["stage"]]
            expect(row, "service", [stage["wall_ns"] / 1e6 for stage in stages])
            assert row["cpu_mean_ms"] == pytest.approx(np.mean([stage["cpu_ns"] / 1e6 for stage in stages]))
    for length_s in (1, 10, 60):
        counts = [row["items"] for row in found.values() if (row["length_s"], row["stage"]) == (length_s, "")]
        assert sum(counts) == sum(each["outcome"] == "delivered" for each in items)


def expect(row: dict[str, Any], kind: str, values_ms: list[float]) -> None:
    names = ("mean", "p50", "p95", "p99")
    if not values_ms:
        assert [row[f"{kind}_{name}_ms"] for name in names] == [None] * 4
        return
    expected = [np.mean(values_ms), *np.percentile(values_ms, (50, 95, 99))]
    assert [row[f"{kind}_{name}_ms"] for name in names] == pytest.approx(expected)


def late_files(seed: int, count: int, span_s: float, files: int) -> list[list[dict[str, Any]]]:
    """Items in the order in which they are written: each up to 30 s after its delivery."""
    chance = random.Random(seed)

    def written(record: dict[str, Any]) -> int:
        return int(record["delivered"]) + chance.choice([0, 0, chance.randrange(30_000_000)])

    ordered = sorted(random_items(seed, count, span_s), key=written)
    size = -(-count // files)
    return [ordered[begin : begin + size] for begin in range(0, count, size)]


@pytest.mark.long  # for every change: tests/unit/test_delta_tables.py
def test_a_batch_that_is_in_the_table_and_not_in_the_checkpoint_is_added_once(spark: Any, tmp_path: Path) -> None:
    """As after a kill between the two."""
    out = tmp_path / "out"
    write(tmp_path, "000", late_files(2, 200, 60.0, 1)[0])
    assert start(live(spark, tmp_path), out, once=True).awaitTermination(LIMIT_S)
    for kept, begun in (("offsets", "0"), ("commits", "")):
        for file in (out / "checkpoint" / TABLE / kept).iterdir():
            if file.name.strip(".").removesuffix(".crc") != begun:
                file.unlink()
    before = versions(out)
    query = start(live(spark, tmp_path), out)
    query.processAllAvailable()
    query.stop()
    assert versions(out) == before
    assert rows(table(spark, out)) == batch_rows(spark, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(420)
@pytest.mark.long
@pytest.mark.parametrize("kills", [1, 3])
def test_a_killed_stream_equals_batch(spark: Any, tmp_path: Path, kills: int, in_session: Callable[..., Any]) -> None:
    parts = late_files(3, 1600, 240.0, 2 * kills + 2)
    out = tmp_path / "out"
    for turn in range(kills):
        for number in (2 * turn, 2 * turn + 1):
            write(tmp_path, f"{number:03}", parts[number])
        seen = versions(out)
        killed_when(lambda: versions(out) > seen, "telemetry", tmp_path, "--out", out)  # noqa: B023 - called at once
    for number in (2 * kills, 2 * kills + 1):
        write(tmp_path, f"{number:03}", parts[number])
    in_session("telemetry", tmp_path, "--out", out, "--once")
    assert rows(table(spark, out)) == batch_rows(spark, tmp_path)


def versions(out: Path) -> int:
    """Commits to the table of windows, those that made it included."""
    return len(list((out / TABLE / "_delta_log").glob("*.json")))


def killed_when(true: Callable[[], bool], *words: object) -> None:
    """Run a command in a process of its own, and kill it when it has done so much."""
    command = [sys.executable, "-m", "service.cli", *map(str, words)]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        eventually(lambda: true() or process.poll() is not None, seconds=LIMIT_S, every_s=0.1)
        assert process.poll() is None, "the job ended by itself"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
