"""Compare how strategies follow a changing load on Ray with fixed compositions: share of the items in time.

Each app runs once under each strategy and once in each of its fixed compositions, one after the other in one Ray, with
the same rates: a wave, or a crowd for a fifth of the time. The first seconds are left out for all alike, and with them
half a wave, or a first crowd, in which worker processes are started. An app and a load take three minutes:

    python -m lab.benchmarks.changing_load --apps synthetic --loads wave
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import pyarrow.parquet as pq

from apps import registry
from apps.rates import Binary, Rate, Wave
from compositions.enumeration import generate
from compositions.model import Composition
from control.decisions import Mode
from datapipe.telemetry.store import some_files_of
from lab.benchmarks.harness import Rows, main, progress
from lab.experiments.runs import delivered, delivering
from profiler.slo import parse_slo
from service.runner.rpc.port import Patient
from service.runner.rpc.requests import ReadStatus, ReadSummary, SetRate
from service.runner.validation.resolution import choices_for
from service.schemas.results import Summary
from service.schemas.spec import InputSpec, RunSpec, TelemetrySpec

LOW, HIGH = 0.15, 0.7
"""Shares of what a fixed composition sustains: the rest is room for other load on the machine."""
CROWD = (0.3, 0.5)
"""Shares of each period."""
MEASURED_S, LOOK_S = 6.0, 0.5


@dataclass(frozen=True)
class Subject:
    """An app, its fixed compositions, and the time within which its items are wanted."""

    name: str
    kept: tuple[str, ...]
    bound_s: float
    """About four times what an item takes by itself; six for Ferret, because ranks scatter: some take half a second."""
    rates_per_s: tuple[float, float] | None = None
    """Lowest and highest; None: shares of what the first of ``kept`` sustains, which is measured first."""
    most_workers: int | None = None
    """Maximum of the generated compositions; None: the app's own list."""
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
    """The result of one run."""

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
    """The load that all contenders of an app get."""

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
    """Duration of a run, and the seconds at its beginning that do not count."""

    duration_s: float
    left_out_s: float


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
    """Return the rates of an app; without rates of its own, those that it sustains are measured first."""
    if subject.rates_per_s is not None:
        return Given(subject, *subject.rates_per_s)
    with delivering(spec_of(subject, subject.kept[0])) as runner:
        time.sleep(MEASURED_S / 2)
        before = delivered(runner)
        time.sleep(MEASURED_S)
        sustained_per_s = (delivered(runner) - before) / MEASURED_S
    return Given(subject, LOW * sustained_per_s, HIGH * sustained_per_s)


def run(known: Given, contender: str, rate: Rate, span: Span) -> Row:
    slo = parse_slo(f"share95={known.subject.bound_s * 1e3:.0f}ms")
    with tempfile.TemporaryDirectory() as folder:
        ending = {"telemetry": TelemetrySpec(folder=folder), "slo": slo, "latency_from": "due"}
        spec = spec_of(known.subject, contender, input=InputSpec(rate_per_s=rate(0.0)), **ending)
        with delivering(spec) as runner:
            asked = Patient(runner)
            asked.ask(SetRate(rate))
            counted_from_s = time.time() + span.left_out_s
            workers = list(_workers(asked, span))
            summary = asked.ask(ReadSummary())
        return _row(Path(folder), known.subject.bound_s, counted_from_s, fmean(workers), summary)


def _workers(asked: Patient, span: Span) -> Iterator[int]:
    """Yield the workers of the active composition while items count."""
    began_s = time.monotonic()
    while (lasted_s := time.monotonic() - began_s) < span.duration_s:
        active = asked.ask(ReadStatus()).composition
        if lasted_s >= span.left_out_s:
            yield active.workers if active is not None else 0
        time.sleep(LOOK_S)


def _row(folder: Path, bound_s: float, counted_from_s: float, workers: float, summary: Summary) -> Row:
    """Count the items. Those that were not out at the end are left out for all contenders alike; those that were never
    read, because the source was blocked for ten seconds, are late."""
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


def measure(
    apps: str = ",".join(SUBJECTS),
    loads: str = "wave,crowd",
    strategies: str = "expected-cost,vogel",
    seconds: Annotated[float, "of a run"] = 46.0,
    left_out: Annotated[float, "seconds at the beginning of a run that do not count"] = 16.0,
    period: Annotated[float, "seconds of a wave, or between two crowds"] = 30.0,
    kept: Annotated[int, "number of the app's fixed compositions to run"] = 1,
) -> Iterator[Rows]:
    span = Span(seconds, left_out)
    for subject in (SUBJECTS[name] for name in apps.split(",")):
        known = given(subject)
        rates = f"{known.low_per_s:.1f} to {known.high_per_s:.1f} items/s"
        rows = []
        for load in loads.split(","):
            for contender in (*strategies.split(","), *subject.kept[:kept]):
                row = run(known, contender, known.rate(load, period), span)
                rows.append({"load": load, "contender": contender, **asdict(row)})
                progress(str(rows[-1]))
        yield Rows(f"{subject.name}, {rates}; in time: within {subject.bound_s * 1e3:.0f} ms", rows)


if __name__ == "__main__":
    main(measure, ray=True)
