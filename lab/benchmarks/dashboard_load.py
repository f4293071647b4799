"""Load for the benchmark of the page: a daemon with many apps whose figures change, and a day of telemetry for each.

The runners are the tests' fakes, so that the page has the machine to itself; REST, event stream, telemetry and the
page are the product's. Run by ``lab.benchmarks.dashboard_page``.
"""

from __future__ import annotations

import argparse
import math
import os
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import uvicorn

from apps import registry
from datapipe.telemetry.schema import SCHEMAS, SEPARATOR
from service.api import create_app
from service.daemon.daemon import Daemon
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.runner_slot import LocalHost
from service.schemas.base import time_text
from service.schemas.figures import Latency
from service.schemas.spec import RunSpec, TelemetrySpec
from service.schemas.status import Sample, Status
from tests.support.bodies import having
from tests.support.fakes import FakeRunner, PromptTicker

FILE_S = 10
TURNS_PER_S = 4
KEPT_S = 900
SAMPLES: dict[int, Sample] = {}


class Moving(FakeRunner):
    """Rates and latency go up and down; each status differs from the last."""

    def status(self) -> Status:
        return self._at(time())

    def history(self, last_s: float) -> list[Sample]:
        """Return samples as long as the page retains them, so that its memory is full from the beginning. The samples
        of a second are made once, for all apps."""
        now_s = int(time())
        return [self._sample(now_s - back) for back in range(int(min(last_s, KEPT_S)), 0, -1)]

    def _sample(self, at_s: int) -> Sample:
        if at_s not in SAMPLES:
            SAMPLES[at_s] = Sample.of(self._at(at_s), time_text(at_s))
        return SAMPLES[at_s]

    def _at(self, at_s: float) -> Status:
        rate, mean = _rate(at_s), _latency_ms(at_s)
        latency = Latency(mean=mean, p50=0.9 * mean, p95=1.6 * mean, p99=2.2 * mean)
        known = {"offered_per_s": rate, "delivered_per_s": rate, "throughput_per_s": rate, "input_rate_per_s": rate}
        moved = {"latency_ms": latency, "queued": int(5 + 5 * math.sin(at_s / 7)), "updated_at": time_text(at_s)}
        return having(super().status(), known | moved)


def _rate(at_s: float) -> float:
    return 100 + 40 * math.sin(at_s / 30) + 5 * math.sin(at_s)


def _latency_ms(at_s: float) -> float:
    return 180 + 60 * math.sin(at_s / 45) + 8 * math.sin(at_s / 2)


def write_day(folder: Path, apps: list[str], hours: float) -> int:
    """Snapshots of that many hours until now, for the first app as its runner would have written them, for the others
    as further names of the same files. Returns how many files there are then."""
    (folder / "snapshots").mkdir(parents=True)
    began_s = time() - 3600 * hours
    count = int(3600 * hours / FILE_S)
    for number in range(count):
        first_s = began_s + FILE_S * number
        rows = [_snapshot(first_s + turn / TURNS_PER_S) for turn in range(FILE_S * TURNS_PER_S)]
        path = folder / "snapshots" / f"{apps[0]}{SEPARATOR}day-{number:06d}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMAS["snapshots"]), path)
        os.utime(path, (first_s + FILE_S,) * 2)
        for app in apps[1:]:
            os.link(path, path.with_name(path.name.replace(apps[0], app, 1)))
    return count * len(apps)


def _snapshot(at_s: float) -> dict[str, Any]:
    rate, mean = _rate(at_s), _latency_ms(at_s)
    stages = [{"stage": name, "service_ms": 20.0, "cpu_ms": 19.0, "bottleneck": False} for name in ("f1", "f2", "f3")]
    rates = {"input_rate_per_s": rate, "throughput_per_s": rate, "offered_per_s": rate, "admitted_per_s": rate}
    latency = {"latency_mean_ms": mean, "latency_p50_ms": 0.9 * mean, "latency_p95_ms": 1.6 * mean}
    slo = {"slo_metric": "latency", "slo_target": 400.0, "slo_bound": 480.0, "slo_status": "met"}
    known = {"app": "app", "run": "day", "composition": "1", "state": "stable", "switching": False, "workers": 5}
    at = datetime.fromtimestamp(at_s, UTC)
    return {**known, **rates, **latency, **slo, "at": at, "queued": 3, "in_flight": 9, "stages": stages}


def serve(port: int, state: Path, names: list[str]) -> None:
    """Serve until it is killed; all apps run, the last tenth of them stopped."""
    synthetic = registry.find("synthetic")
    apps = {name: type(name, (synthetic,), {"name": name}) for name in names}
    registry.find = lambda name, folders=(): apps[name]  # type: ignore[assignment]
    with closing(DaemonStore(state)) as store:
        told = RunSpec(app="", telemetry=TelemetrySpec(folder=str(state / "telemetry")))
        daemon = Daemon(apps, LocalHost(Moving), store, told, make_ticker=PromptTicker)
        for name in names[: max(1, len(names) * 9 // 10)]:
            daemon.apps.start(RunSpec(app=name))
        uvicorn.run(create_app(daemon), host="127.0.0.1", port=port, log_config=None)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--apps", required=True)
    asked = parser.parse_args()
    serve(asked.port, asked.state, asked.apps.split(","))
