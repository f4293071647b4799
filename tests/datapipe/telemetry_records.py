"""Items as a runner would have written them, in files of any order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from time import time
from typing import Any

import pyarrow as pa

from datapipe.telemetry.schema import SCHEMAS, SUFFIX
from datapipe.telemetry.writer import write_atomically

EPOCH_US = (int(time()) // 86_400 - 1) * 86_400 * 10**6 + 80_000_000_000
"""Of yesterday: older records are not kept for ever."""


def item(serial: int, delivered_us: int, latency_us: int | None = 1000, **other: Any) -> dict[str, Any]:
    """A delivered item without an SLO and stages, unless told otherwise. ``delivered_us`` counts from ``EPOCH_US``."""
    delivered = EPOCH_US + delivered_us
    plain = {"app": "a", "run": "r", "composition": "1", "outcome": "delivered", "batch": 1}
    plain |= {"target_us": None, "threshold": None, "stages": []}
    return plain | {"serial": serial, "arrived": delivered - (latency_us or 0), "delivered": delivered} | other


def write(directory: Path, name: str, items: Sequence[dict[str, Any]]) -> None:
    (directory / "items").mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(list(items), schema=SCHEMAS["items"])
    write_atomically(table, directory / "items" / f"{name}{SUFFIX}")


def random_items(seed: int, count: int, span_s: float) -> list[dict[str, Any]]:
    """Two apps, a switch of composition and of SLO, failed and shed items, in order of delivery."""
    chance = random.Random(seed)
    return [_random_item(chance, serial, int(serial * span_s * 1e6 / count)) for serial in range(count)]


def _random_item(chance: random.Random, serial: int, at_us: int) -> dict[str, Any]:
    outcome = chance.choices(["delivered", "failed", "shed"], [0.9, 0.05, 0.05])[0]
    stages = [{"stage": name, "wall_ns": chance.randrange(10**7), "cpu_ns": chance.randrange(10**6)} for name in "fgh"]
    slo = chance.choice([(None, None), (20_000, 0.2), (45_000, 0.05)])
    return item(
        serial, at_us, chance.randrange(1, 90_000), app=chance.choice("ab"), outcome=outcome,
        composition="" if outcome == "shed" else chance.choice(["1", "12"]), batch=chance.choice([0, 1, 5, 14]),
        target_us=slo[0], threshold=slo[1], stages=stages if outcome == "delivered" else [],
    )  # fmt: skip
