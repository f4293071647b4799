"""A source that is held back: what was offered against what was delivered, and since when a latency counts.

Three stages, of which the middle one waits 38 ms, one worker for all of them, 45 items/s: 25 a second come out. Ours
is pinned to that composition; the same pipeline in Ray Data has one actor a stage and the streaming executor's own
back-pressure. For both: latency from when an item was due, and from when it was admitted, side by side.

python -m lab.benchmarks.stalled_source [--seconds 30] [--rate 45] [--json]
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from control.decisions import Mode
from lab.benchmarks.harness import metadata, options
from profiler.slo import Slo
from runtime.pools.ray import cluster
from service.runner.rpc.requests import ReadStatus, Start, Stop
from service.runner.runner import Runner
from service.schemas.spec import InputSpec, RunSpec

STAGE_MS = 38.0
SLO = Slo("latency", 2000, statistic="p95")
UP_S = 120.0


@dataclass(frozen=True)
class Found:
    """Of the last seconds of a run; latencies in ms, ``None`` where the contender cannot tell."""

    contender: str
    offered_per_s: float
    delivered_per_s: float
    missed: int | None
    from_due_p95_ms: float
    from_admission_p95_ms: float
    says: str


def ours(rate_per_s: float, seconds: float) -> Found:
    options = {"total_ms": STAGE_MS, "weights": "1:17:1", "compute": "wait"}
    spec = RunSpec(
        app="synthetic", options=options, composition="1", mode=Mode.PINNED, slo=SLO,
        input=InputSpec(rate_per_s=rate_per_s), settings={"catch_up_s": 600.0},
    )  # fmt: skip
    runner = Runner(spec)
    runner.ask(Start())
    try:
        wait_until_up(runner)
        time.sleep(seconds)
        status = runner.ask(ReadStatus())
    finally:
        runner.ask(Stop(drain=False))
    read = status.demand.latency_from_read_ms
    return Found(
        "recompose, one worker a stage",
        status.demand.offered_per_s or 0.0,
        status.throughput_per_s or 0.0,
        status.demand.missed,
        status.latency_ms.p95 or 0.0,
        (read.p95 if read else None) or 0.0,
        f"slo {status.requested.slo_status}, {status.demand.lag_s or 0:.1f} s behind",
    )


def wait_until_up(runner: Runner) -> None:
    until_s = time.monotonic() + UP_S
    while not runner.ask(ReadStatus()).items.delivered:
        if time.monotonic() > until_s:
            raise TimeoutError(f"nothing was delivered within {UP_S:g} s: {runner.ask(ReadStatus()).health.failure}")
        time.sleep(0.1)


class Paced:
    """The first stage of Ray Data: waits until an item is due, and notes when it was admitted."""

    def __init__(self, rate_per_s: float) -> None:
        self._rate_per_s = rate_per_s
        self._began_s: float | None = None

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        self._began_s = time.time() if self._began_s is None else self._began_s
        due_s = self._began_s + row["id"] / self._rate_per_s
        time.sleep(max(0.0, due_s - time.time()))
        return {"due_s": due_s, "admitted_s": time.time()}


class Waits:
    """A stage that takes its time."""

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        time.sleep(self._wait_s)
        return row


def peer(rate_per_s: float, seconds: float) -> Found:
    """Rows one by one through three actors, as the streaming executor moves them."""
    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False
    count = int(rate_per_s * seconds)
    rows = ray.data.range(count, override_num_blocks=count)
    paced = rows.map(Paced, fn_constructor_args=(rate_per_s,), concurrency=1, num_cpus=0)
    done = paced.map(Waits, fn_constructor_args=(STAGE_MS * 17 / 19 / 1e3,), concurrency=1, num_cpus=0)
    seen = np.array(list(_watched(done.iter_rows(), seconds)))
    late = seen[seen[:, 2] > seen[-1, 2] - 10.0]
    return Found(
        "Ray Data, one actor a stage",
        rate_per_s,
        (len(late) - 1) / (late[-1, 2] - late[0, 2]),
        None,
        float(np.percentile(late[:, 2] - late[:, 0], 95)) * 1e3,
        float(np.percentile(late[:, 2] - late[:, 1], 95)) * 1e3,
        "nothing",
    )


def _watched(rows: Iterator[dict[str, Any]], seconds: float) -> Iterator[tuple[float, float, float]]:
    first_s: float | None = None
    for row in rows:
        now_s = time.time()
        first_s = now_s if first_s is None else first_s
        yield row["due_s"], row["admitted_s"], now_s
        if now_s - first_s > seconds:
            return


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=45.0, help="items/s offered")
    given = parser.parse_args()
    cluster.connect()
    try:
        found = [ours(given.rate, given.seconds), peer(given.rate, given.seconds)]
    finally:
        cluster.shutdown()
    if given.json:
        print(json.dumps({"metadata": metadata(), "found": [asdict(each) for each in found]}, indent=2))
        return
    print(", ".join(f"{name}: {value}" for name, value in metadata().items()))
    print(f"{'':34}{'offered':>9}{'delivered':>11}{'p95 from due':>15}{'from admission':>16}  says")
    for each in found:
        rates = f"{each.offered_per_s:7.1f}/s{each.delivered_per_s:9.1f}/s"
        waits = f"{each.from_due_p95_ms:12.0f} ms{each.from_admission_p95_ms:13.0f} ms"
        print(f"{each.contender:34}{rates}{waits}  {each.says}")


if __name__ == "__main__":
    main()
