"""Batch controllers compared in virtual time: the workload, the pipeline by hand, the grid and its tables."""

from dataclasses import replace

import numpy as np
import pytest

from compositions.batch_settings import BatchSettings, Sizes
from control.bundles import make_batch_controller
from lab.papers.leonarczyk import published
from lab.papers.leonarczyk.drawn import ADVISED, drawn, few_setups, reachable
from lab.papers.leonarczyk.figure_data import cumulative, fixed, over_tuples, pid_terms, steps_by_latency
from lab.papers.leonarczyk.grid import OURS, PUBLISHED, BundleFigures, Row, Setup, rows_of, setups, trace_of
from lab.papers.leonarczyk.plant import PHASES, CostLaw, Paced, Phase, Pipeline, Source, Trace, Work, Workload, simulate
from lab.papers.leonarczyk.tables import Rows, itemized_hit, mad_distance, of_the_reachable
from lab.papers.pictures import picture

SMALL = Workload.of([Phase("increasing", 3000, 1), Phase("spike", 1000, 3), Phase("binary", 1500, 2)])
PLAIN = CostLaw((1.0, 1.0), (0.5, 0.5), cv=0.0, drift_cv=0.0, outliers=0.0)
PID = Setup("pid", (("kp", 10.0), ("ki", 15.0), ("kd", 3.0), ("sample", 1)))


# --- the workload ----------------------------------------------------------------------------------------------------


def test_phases_are_those_of_table_4_1() -> None:
    assert {phase.pattern: phase.tuples for phase in PHASES} == {
        "increasing": 200_000, "spike": 100_000, "decreasing": 200_000, "binary": 200_000, "wave": 300_000,
    }  # fmt: skip
    assert [phase.cycles for phase in PHASES] == [1, 5, 1, 5, 10]


def test_loads_go_from_the_easiest_to_the_hardest() -> None:
    for phase in PHASES:
        loads = replace(phase, tuples_a_cycle=1000).loads()
        assert len(loads) == 1000 * phase.cycles
        assert loads.min() == pytest.approx(0.0, abs=0.011)
        assert loads.max() == pytest.approx(1.0, abs=0.011)
    assert (Phase("binary", 10, 1).loads() == [0] * 5 + [1] * 5).all()


# --- the pipeline, by hand -------------------------------------------------------------------------------------------


def run_fixed(size: int, tuples: int, in_flight: int, source: Source | None = None) -> Trace:
    controller = make_batch_controller("fixed", BatchSettings(sizes=Sizes(1, 1000, size)))
    pipeline = Pipeline(PLAIN, in_flight)
    return simulate(controller, np.zeros(tuples), replace(pipeline, source=source) if source else pipeline)


def test_two_bundles_in_flight_by_hand() -> None:
    """1 + 0.5 · 2 = 2 ms each, 1 ms apart. The first two open at 0: out at 2 and 3. The third opens when the first is
    out, at 2: out at 4. The fourth at 3: out at 5."""
    trace = run_fixed(2, 8, in_flight=2)
    assert trace.latencies_s * 1e3 == pytest.approx([2, 3, 2, 2])
    assert trace.ended_s == pytest.approx(0.005)
    assert trace.firsts.tolist() == [0, 2, 4, 6]


def test_a_paced_source_by_hand() -> None:
    """A tuple a ms: the first bundle has its second tuple at 1, and is out at 3. The next begins with the tuple of 2,
    is full at 3 and out at 5: 3 ms each, of which 1 to fill."""
    assert run_fixed(2, 6, in_flight=2, source=Paced(1000.0)).latencies_s * 1e3 == pytest.approx([3, 3, 3])


def test_the_last_bundle_takes_what_is_left() -> None:
    assert run_fixed(3, 8, in_flight=1).sizes.tolist() == [3, 3, 2]


def test_what_waits_at_a_paced_source() -> None:
    source = Paced(1000.0)
    assert source.waiting(0, 0.0) == 1
    assert source.waiting(3, 0.0055) == 3, "tuples 3, 4 and 5"
    assert source.waiting(9, 0.0055) == 0


def test_a_run_is_a_function_of_its_arguments() -> None:
    setup = Setup("pmbaf", (("step", 5.0), ("sample", 1)), 0.05)
    first, again, other = (trace_of(setup, SMALL, Pipeline(), seed) for seed in (0, 0, 1))
    assert (first.latencies_s == again.latencies_s).all()
    assert len(first.latencies_s) != len(other.latencies_s) or (first.latencies_s != other.latencies_s).any()


def test_noise_is_about_one() -> None:
    noise = CostLaw(cv=0.1, drift_cv=0.1, outliers=0.0).noise(1)
    factors = np.array([next(noise).full for _ in range(40_000)])
    assert factors.mean() == pytest.approx(1.0, abs=0.02)
    assert factors.std() == pytest.approx(0.14, abs=0.02)


def test_where_the_parts_of_a_law_overlap_a_small_bundle_costs_as_much_as_one_tuple() -> None:
    """Preparing 0.1 + 0.01 n, then 3 ms however few, 0.1 ms a tuple once the device is full: from 30 tuples on."""
    law = CostLaw((3.0, 3.0), (0.1, 0.1), overlap=50.0, prepare_ms=(0.1, 0.01))
    work = Work(np.zeros(200), law)
    found_ms = [work.mean_s(0, size) * 1e3 for size in (1, 20, 100)]
    assert found_ms == pytest.approx([3.0 + 0.11, 3.0 + 0.3, 10.0 + 1.1], rel=1e-3)


def test_the_slowest_stage_and_the_source_keep_bundles_apart() -> None:
    """Work of 2 ms, of which the slowest stage has 0.5: bundles leave 1 ms apart, so each waits for the one before
    it. With a source that needs 1.5 ms they leave 1.5 apart, and nothing waits: 3.5 from source to sink."""
    for prepare_ms, latency_ms in ((0.0, 3.0), (1.5, 3.5)):
        law = replace(PLAIN, prepare_ms=(prepare_ms, 0.0))
        controller = make_batch_controller("fixed", BatchSettings(sizes=Sizes(1, 1000, 2)))
        trace = simulate(controller, np.zeros(40), Pipeline(law, 3, slowest=0.5))
        assert trace.latencies_s[-1] * 1e3 == pytest.approx(latency_ms)


def test_a_law_may_have_any_number_of_loads() -> None:
    """Loads 0.25 lie half way from 0 to 0.5, where the line has its corner: a 2 and b 1. Of 2 tuples: 2 + 2 · 1."""
    law = CostLaw((1.0, 3.0, 9.0), (0.5, 1.5, 1.5), (0.0, 0.5, 1.0), cv=0.0, drift_cv=0.0, outliers=0.0)
    controller = make_batch_controller("fixed", BatchSettings(sizes=Sizes(1, 1000, 2)))
    trace = simulate(controller, np.array([0.25, 0.25, 0.5, 1.0]), Pipeline(law, in_flight=1))
    assert trace.latencies_s * 1e3 == pytest.approx([4.0, 6.0 + 3.0])


# --- the grid --------------------------------------------------------------------------------------------------------


def test_the_grid_is_that_of_section_5_3() -> None:
    """400 combinations: five controllers, five steps, four samples, four thresholds, to one of which one is blind."""
    every = setups()
    stepping = [setup for setup in every if setup.controller not in ("pid", OURS)]
    assert sum(1 if setup.threshold else 4 for setup in stepping) == 400
    assert sum(setup.controller == "pid" for setup in every) == 6 * 5 * 4 * 4
    assert [setup for setup in every if setup.controller == OURS] == [Setup(OURS)]
    assert len(set(every)) == len(every)


def test_rows_are_of_every_threshold_and_pattern() -> None:
    rows = rows_of(PID, SMALL, Pipeline())
    assert [row.threshold for row in rows] == [0.05, 0.10, 0.15, 0.20]
    assert all(set(row.by_pattern) == {"increasing", "spike", "binary"} for row in rows)
    hits = [row.figures.itemized_hit for row in rows]
    assert hits == sorted(hits), "a wider band is hit more often"


def row(controller: str, hit: float, mad: float = 0.2, values: tuple[tuple[str, float], ...] = ()) -> list[Row]:
    figures = BundleFigures(hit, hit, mad, 0.4)
    patterns = {phase.pattern: figures for phase in PHASES}
    setup = Setup(controller, (*values, ("sample", 1)))
    return [Row(setup, threshold, 0, figures, patterns, 100, 1e4) for threshold in published.THRESHOLDS]


def some_rows() -> list[Row]:
    return [each for name in PUBLISHED for each in row(name, 0.3)] + row(OURS, 0.8, 0.05)


def test_the_best_setup_is_found_either_way() -> None:
    rows = Rows([*row("faf", 0.2, 0.3, (("step", 1.0),)), *row("faf", 0.3, 0.4, (("step", 5.0),))])
    assert rows.best("faf", 0.05, itemized_hit).setup.values[0] == ("step", 5)
    assert rows.best("faf", 0.05, mad_distance, False).setup.values[0] == ("step", 1)


def test_a_clairvoyant_stands_beside_ours_and_the_best_of_the_six() -> None:
    clairvoyant, ours, theirs = of_the_reachable(Rows(some_rows()), row("clairvoyant", 0.9)[0])
    assert (clairvoyant["all"], ours["spike"], theirs["all"]) == pytest.approx((90.0, 80.0, 30.0))
    assert theirs["controller"] == "faf, best of the six"


def test_drawn_workloads_are_the_seeds_and_can_be_met() -> None:
    assert (drawn(1).workload.loads == drawn(1).workload.loads).all()
    assert drawn(1).pipeline != drawn(2).pipeline
    for seed in range(1, 30):
        law = drawn(seed).pipeline.law
        assert law.a_ms[1] + law.b_ms[1] < 3.0
    assert set(ADVISED) <= set(few_setups())


def test_noise_leaves_a_share_to_hit() -> None:
    """3 % of noise put 5 % at 1.7 standard deviations: about nine of ten, whatever the drift, for it is known."""
    for cv, least, most in ((0.005, 0.95, 1.0), (0.03, 0.85, 0.97), (0.28, 0.05, 0.35)):
        law = CostLaw(cv=cv, drift_cv=0.1, outliers=0.0, drift_bundles=20)
        assert least <= itemized_hit(reachable(SMALL, Pipeline(law))) <= most


def test_nobody_does_better_than_the_clairvoyant() -> None:
    most = itemized_hit(reachable(SMALL, Pipeline()))
    assert all(itemized_hit(rows_of(setup, SMALL, Pipeline())[0]) < most for setup in (PID, Setup(OURS), fixed(50)))


# --- data of figures -------------------------------------------------------------------------------------------------


def test_data_of_figures() -> None:
    thinned = over_tuples({"one": fixed(1), "ours": Setup(OURS)}, SMALL, Pipeline())
    assert len(thinned.lines) <= 2 * 2000
    assert {line[0] for line in thinned.lines} == {"one", "ours"}
    *_, last = cumulative(PID, SMALL, Pipeline()).lines
    figures = rows_of(PID, SMALL, Pipeline())[0].figures
    assert last[1:] == pytest.approx((figures.batched_hit, figures.itemized_hit))
    terms = pid_terms(PID, SMALL, Pipeline())
    assert len(terms.head) == len(terms.lines[0])
    for data in (thinned, terms, steps_by_latency()):
        assert picture("Figure", data).startswith(b"\x89PNG")
