"""Latency and throughput behind one type: each owns its bound, its worth, whose doing a miss is, and its words."""

import pickle
import re
from dataclasses import replace
from pathlib import Path

import pytest

from compositions.errors import RecomposeError
from control.objectives import objective_of
from profiler.slo import Slo, SloStatus, together
from profiler.snapshot import LatencyStats, Snapshot
from service.daemon.store.store import slo_from_json, slo_to_json

HOUSE = Path(__file__).parent.parent.parent
LATENCY, RATE = objective_of(Slo("latency", 100.0)), objective_of(Slo("throughput", "input_rate"))
STATS = LatencyStats(0.3, 0.3, 0.3, 0.3, 50)
BEHIND = Snapshot(
    50.0, "1", False, 0.0, 40.0, 10.0, 6.0, 60, STATS, replace(STATS, mean_s=0.1), 20, -5.0, 2, (), 4, 2, 3e-4
)  # fmt: skip


def test_the_bound_is_the_target_and_its_threshold_on_the_side_that_counts() -> None:
    assert LATENCY.bound(None) == 120.0
    assert (RATE.bound(10.0), RATE.bound(None)) == (8.0, None)
    assert (LATENCY.target(None), RATE.target(10.0)) == (100.0, 10.0)
    assert (LATENCY.item_target_ms, RATE.item_target_ms) == (100.0, None), "only a latency holds each item to a target"
    assert (LATENCY.worth(90.0) > LATENCY.worth(100.0), RATE.worth(10.0) > RATE.worth(9.0)) == (True, True)


def test_a_value_is_within_the_bound_or_nobody_knows() -> None:
    def within(latency_ms: float) -> float | None:
        return LATENCY.room(None, lambda _: latency_ms / 1e3, None)

    assert (within(120.0), within(90.0), within(150.0)) == (0.0, pytest.approx(0.25), pytest.approx(-0.25))
    assert [RATE.room(each, STATS.at, 10.0) for each in (8.0, 6.0, None)] == [0.0, pytest.approx(-0.25), None]
    assert RATE.room(8.0, STATS.at, None) is None


def test_a_latency_is_excused_by_a_backlog_that_is_soon_gone_a_throughput_by_an_empty_queue() -> None:
    excused = LATENCY.whose_doing(BEHIND, "late", patience_s=30.0)
    assert (excused.status, excused.meets) == (SloStatus.VIOLATED, True)
    assert LATENCY.whose_doing(BEHIND, "late", patience_s=3.0).meets is False
    assert RATE.whose_doing(BEHIND, "short", patience_s=30.0).meets is False
    assert RATE.whose_doing(replace(BEHIND, queued=0), "short", patience_s=30.0).meets is True


def test_each_says_it_in_its_own_words() -> None:
    assert (LATENCY.described(90.0), LATENCY.described(None)) == ("90 ms", "no latency")
    assert (RATE.described(9.0), RATE.described(None)) == ("9 items/s", "no throughput")


@pytest.mark.parametrize(
    "text",
    [
        '{"metric":"latency","target":400.0,"threshold":0.2,"statistic":"p95"}',
        '{"metric":"throughput","target":"input_rate","threshold":0.2,"statistic":"mean"}',
    ],
)
def test_state_databases_of_before_are_read_and_written_as_before(text: str) -> None:
    slo = slo_from_json(text)
    assert slo_to_json(slo) == text
    assert objective_of(slo).slo is slo
    assert pickle.loads(pickle.dumps(slo)) == slo


def test_nobody_asks_for_the_name_of_a_metric() -> None:
    """A table by metric, where text becomes an objective or a picture, is no question; a comparison is."""
    asked = re.compile(r"""metric\b\s*(==|!=|is\b|in \()|["'](latency|throughput)["']\s*[!=]=""")
    files = [path for room in ("control", "profiler", "service", "lab") for path in (HOUSE / room).rglob("*.py")]
    assert len(files) > 100
    found = [f"{path.relative_to(HOUSE)}: {line}" for path in files for line in path.read_text().splitlines()]
    assert [line for line in found if asked.search(line)] == []


def test_the_fastest_has_no_bound_that_a_measurement_could_miss() -> None:
    fastest = objective_of(Slo("throughput", "fastest"))
    assert (fastest.bound(10.0), fastest.target(10.0)) == (None, None)
    verdict = fastest.judge(STATS, 6.0, 10.0)
    assert (verdict.status, verdict.reason) == (SloStatus.MET, "throughput 6 items/s")
    assert fastest.judge(STATS, None, 10.0).status is SloStatus.UNKNOWN


def test_the_fastest_stands_alone() -> None:
    with pytest.raises(RecomposeError, match="fastest stands alone"):
        together([Slo("throughput", "fastest"), Slo("latency", 100.0)])
