"""Compare the latency from when an item was due with that from its admission, if the source is held back.

Three stages, of which the middle one waits 38 ms, one worker for all of them, 45 items/s: 25 per second come out. Ours
is pinned to that composition; the same pipeline in Ray Data has one actor per stage and the streaming executor's own
back-pressure.

    python -m lab.benchmarks.stalled_source [--seconds 30] [--rate 45] [--json]
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import numpy as np

from control.decisions import Mode
from lab.benchmarks.harness import Rows, main
from lab.experiments.runs import delivering
from profiler.slo import Slo
from service.runner.rpc.requests import ReadStatus
from service.schemas.spec import InputSpec, RunSpec

STAGE_MS = 38.0
SLO = Slo("latency", 2000, statistic="p95")


@dataclass(frozen=True)
class Found:
    """Figures of the last seconds of a run; ``None`` if the contender cannot tell."""

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
    with delivering(spec) as runner:
        time.sleep(seconds)
        status = runner.ask(ReadStatus())
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


def measure(seconds: float = 30.0, rate: Annotated[float, "items/s offered"] = 45.0) -> Iterator[Rows]:
    yield Rows("a source that is held back", [asdict(each(rate, seconds)) for each in (ours, peer)])


if __name__ == "__main__":
    main(measure, ray=True)
