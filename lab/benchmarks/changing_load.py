"""Compare how strategies follow a changing load on Ray with fixed compositions: share of the items in time.

Each app runs once under each strategy and once in each of its fixed compositions, one after the other in one Ray, with
the same rates: a wave, or a crowd for a fifth of the time. The first seconds are left out for all alike, and with them
half a wave, or a first crowd, in which worker processes are started. An app and a load take three minutes:

    python -m lab.benchmarks.changing_load --apps synthetic --loads wave
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow.parquet as pq

from apps import registry
from apps.rates import Binary, Rate, Wave
from compositions.enumeration import generate
from compositions.model import Composition
from control.decisions import Mode
from datapipe.telemetry.store import some_files_of
from lab.benchmarks.harness import metadata, options, tell
from profiler.slo import parse_slo
from runtime.pools.ray import cluster
from service.runner.rpc.port import Patient
from service.runner.rpc.requests import ReadStatus, ReadSummary, SetRate, Start, Stop
from service.runner.runner import Runner
from service.runner.validation.resolution import choices_for
from service.schemas.results import Summary
from service.schemas.spec import InputSpec, RunSpec, TelemetrySpec

LOW, HIGH = 0.15, 0.7
"""Of what a fixed composition sustains: the rest is room for what else there is to do on the machine."""
CROWD = (0.3, 0.5)
"""Of each period."""
MEASURED_S, UP_S, LOOK_S = 6.0, 120.0, 0.5


@dataclass(frozen=True)
class Subject:
    """An app, the compositions that one might keep, and within what its items are wanted."""

    name: str
    kept: tuple[str, ...]
    bound_s: float
    """About four times what an item takes by itself; of Ferret six, because ranks scatter: some take half a second."""
    rates_per_s: tuple[float, float] | None = None
    """Lowest and highest; None: shares of what the first of ``kept`` sustains, which is measured first."""
    most_workers: int | None = None
    """Of all that there are to choose from; None: the app's own list."""
    options: Mapping[str, Any] = field(default_factory=dict)


WAITING = {"compute": "wait", "weights": "2:12:5:1", "total_ms": 100, "distribution": "lognormal", "cv": 0.5}
"""The stages of ``lab.benchmarks.changing_load``, which sleep: two cores are enough for twelve workers."""
SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject("synthetic", ("Par*9(f1,f2,f3,f4)",), 0.25, (8.0, 70.0), 12, WAITING),
        Subject("person_recognition", ("4", "5"), 0.6, options={"denoise": "fast"}),
        Subject("ferret", ("12", "15"), 0.8),
    )
}


@dataclass(frozen=True)
class Row:
    """What came of one run."""

    in_time: float
    workers: float
    """Mean number."""
    changes: int
    items: int
    lost: int
    misordered: int
    doubled: int


@dataclass(frozen=True)
class Given:
    """What all contenders of an app meet."""

    subject: Subject
    low_per_s: float
    high_per_s: float

    def rate(self, load: str, period_s: float) -> Rate:
        make = Wave if load == "wave" else _Crowd
        return make(period_s, self.low_per_s, self.high_per_s)


class _Crowd(Binary):
    """High for a part of each period, before its middle."""

    def __call__(self, elapsed_s: float) -> float:
        begins, ends = CROWD
        return self.max_per_s if begins <= self.phase(elapsed_s) < ends else self.min_per_s


@dataclass(frozen=True)
class Span:
    """How long a run is, and from when on its items count."""

    duration_s: float
    left_out_s: float


@contextmanager
def running(spec: RunSpec) -> Iterator[Patient]:
    runner = Runner(spec)
    asked = Patient(runner)
    runner.ask(Start())
    give_up_s = time.monotonic() + UP_S
    while not asked.ask(ReadStatus()).items.delivered:
        if time.monotonic() > give_up_s:
            raise TimeoutError(f"no result of {spec.app} within {UP_S:g} s")
        time.sleep(0.1)
    try:
        yield asked
    finally:
        runner.ask(Stop(drain=False, timeout_s=10))


def spec_of(subject: Subject, contender: str, **more: Any) -> RunSpec:
    """``contender``: a strategy, or the name of a composition that stays."""
    compositions = choices(subject)
    fixed = contender in {each.name for each in compositions}
    return RunSpec(
        app=subject.name,
        options=dict(subject.options),
        compositions=compositions,
        composition=contender if fixed else None,
        mode=Mode.PINNED if fixed else Mode.AUTO,
        strategy="static" if fixed else contender,
        **more,
    )


def choices(subject: Subject) -> tuple[Composition, ...]:
    app = registry.create(subject.name, dict(subject.options))
    if subject.most_workers is None:
        return choices_for(app)
    replicas = range(1, subject.most_workers + 1)
    return tuple(generate(list(app.stages), max_workers=subject.most_workers, replicas=replicas))


def given(subject: Subject) -> Given:
    """Measured where the app has no rates of its own: items/s when there is always one."""
    if subject.rates_per_s is not None:
        return Given(subject, *subject.rates_per_s)
    with running(spec_of(subject, subject.kept[0])) as asked:
        time.sleep(MEASURED_S / 2)
        before = asked.ask(ReadStatus()).items.delivered
        time.sleep(MEASURED_S)
        sustained_per_s = (asked.ask(ReadStatus()).items.delivered - before) / MEASURED_S
    return Given(subject, LOW * sustained_per_s, HIGH * sustained_per_s)


def run(known: Given, contender: str, rate: Rate, span: Span) -> Row:
    slo = parse_slo(f"share95={known.subject.bound_s * 1e3:.0f}ms")
    with tempfile.TemporaryDirectory() as folder:
        ending = {"telemetry": TelemetrySpec(folder=folder), "slo": slo, "latency_from": "due"}
        spec = spec_of(known.subject, contender, input=InputSpec(rate_per_s=rate(0.0)), **ending)
        with running(spec) as asked:
            asked.ask(SetRate(rate))
            counted_from_s = time.time() + span.left_out_s
            workers = list(_workers(asked, span))
            summary = asked.ask(ReadSummary())
        return _row(Path(folder), known.subject.bound_s, counted_from_s, fmean(workers), summary)


def _workers(asked: Patient, span: Span) -> Iterator[int]:
    """Of the active composition while items count, look by look."""
    began_s = time.monotonic()
    while (lasted_s := time.monotonic() - began_s) < span.duration_s:
        active = asked.ask(ReadStatus()).composition
        if lasted_s >= span.left_out_s:
            yield active.workers if active is not None else 0
        time.sleep(LOOK_S)


def _row(folder: Path, bound_s: float, counted_from_s: float, workers: float, summary: Summary) -> Row:
    """What had not come out by the end was due a moment before it, and is left out for all alike; what was never read
    because the source was held back for ten seconds is late."""
    assert summary.items is not None
    serials, in_time = [], []
    for path in some_files_of(folder, "items"):
        for item in pq.read_table(path).to_pylist():
            serials.append(item["serial"])
            if item["arrived"].timestamp() >= counted_from_s:
                took_s = (item["delivered"] - item["arrived"]).total_seconds()
                in_time.append(item["outcome"] == "delivered" and took_s <= bound_s)
    doubled = len(serials) - len(set(serials))
    turned = sum(after < before for before, after in pairwise(serials))
    due = len(in_time) + (summary.missed or 0)
    return Row(
        in_time=sum(in_time) / max(1, due),
        workers=workers,
        changes=summary.switches,
        items=due,
        lost=summary.items.lost,
        misordered=summary.items.misordered + turned,
        doubled=doubled,
    )


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--apps", default=",".join(SUBJECTS))
    parser.add_argument("--loads", default="wave,crowd")
    parser.add_argument("--strategies", default="model,vogel")
    parser.add_argument("--seconds", type=float, default=46.0, help="a run")
    parser.add_argument("--left-out", type=float, default=16.0, help="of its seconds, at its beginning")
    parser.add_argument("--period", type=float, default=30.0)
    parser.add_argument("--kept", type=int, default=1, help="how many of the app's compositions that stay are run")
    wanted = parser.parse_args()
    cluster.connect()
    try:
        rows = {
            f"{name} {load} {contender}": asdict(row)
            for name in wanted.apps.split(",")
            for load, contender, row in _rows(SUBJECTS[name], wanted)
        }
    finally:
        cluster.shutdown()
    tell({**metadata(), **rows}, wanted.json)


def _rows(subject: Subject, wanted: argparse.Namespace) -> Iterator[tuple[str, str, Row]]:
    known = given(subject)
    rates = f"{known.low_per_s:.1f} to {known.high_per_s:.1f} items/s"
    print(f"{subject.name}: {rates}; in time: within {subject.bound_s * 1e3:.0f} ms", flush=True)
    span = Span(wanted.seconds, wanted.left_out)
    for load in wanted.loads.split(","):
        for contender in (*wanted.strategies.split(","), *subject.kept[: wanted.kept]):
            row = run(known, contender, known.rate(load, wanted.period), span)
            print(f"{subject.name:20} {load:6} {contender:6} {row}", flush=True)
            yield load, contender, row


if __name__ == "__main__":
    main()
