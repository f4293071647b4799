"""The summary tells what was asked for beside what came out."""

from typing import Any

import pytest

from profiler.slo import parse_slo, together
from service.cli.run import summary_rows
from service.runner.rpc.requests import ReadSummary, Start
from service.runner.runner import Runner
from service.schemas.results import CheckedItems, Summary
from service.schemas.spec import InputSpec, RunSpec, SourceSpec

PATIENCE_S = 30.0
TWENTY = {"app": "synthetic", "options": {"total_ms": 0, "items": 20}, "pool": "local"}


def summary(delivered: int, **known: Any) -> Summary:
    items = CheckedItems(accepted=delivered, delivered=delivered, failed=0, shed=0, lost=0, misordered=0)
    return Summary(items=items, **known)


def summary_of_a_run(**spec: Any) -> Summary:
    runner = Runner(RunSpec(**TWENTY, source=SourceSpec(loop=False), **spec))
    runner.ask(Start())
    assert runner.wait(PATIENCE_S)
    return runner.ask(ReadSummary())


@pytest.mark.parametrize("input", [InputSpec(), InputSpec(rate_per_s=1000)])
def test_a_source_that_was_read_to_its_end_was_asked_for_what_it_had(input: InputSpec) -> None:
    known = summary_of_a_run(input=input)
    assert (known.admitted, known.missed, known.lag_s) == (20, known.missed, 0.0)
    assert known.offered == 20 + (known.missed or 0)
    assert known.bundle_sizes[0] == 1


def test_the_table_tells_what_was_asked_for_where_it_did_not_come_out() -> None:
    rows = dict(summary_rows(summary(60, offered=100, admitted=60, missed=30, lag_s=10.04)))
    assert rows["asked for"] == "offered 100, admitted 60, missed 30; the next item overdue by 10.0 s"


def test_the_table_tells_how_large_bundles_were_where_they_held_more_than_one_item() -> None:
    assert dict(summary_rows(summary(60, bundle_sizes=[1, 2048])))["items in a bundle, at most"] == "1, then 2,048"
    many = dict(summary_rows(summary(60, bundle_sizes=[1, 2048, 7, 8, 9, 10])))
    assert many["items in a bundle, at most"] == "1, then 2,048, then 3 others, then 10"
    assert "items in a bundle, at most" not in dict(summary_rows(summary(60, bundle_sizes=[1])))


def test_a_run_leads_with_the_figures_that_were_asked_for() -> None:
    slo = together([parse_slo(text) for text in ("p95=400ms", "share95=300ms", "throughput=input_rate")])
    (p95, share, throughput, *_) = summary_rows(summary_of_a_run(input=InputSpec(rate_per_s=10), slo=slo))
    assert (p95[0], p95[1].endswith(" ms")) == ("p95 latency ≤ 400 ms", True)
    assert (share[0], share[1][:20]) == ("latency of 95 % of the items ≤ 300 ms", "100 % of the items; ")
    assert (throughput[0], throughput[1].endswith(" items/s")) == ("throughput ≥ the input rate", True)
