"""Batch controllers compared in virtual time: the pipeline by hand, the grid, and what the thesis prints."""

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from compositions.batch_settings import BatchSettings, Sizes
from control.bundles import make_batch_controller
from lab.papers.leonarczyk import page
from lab.papers.leonarczyk.drawn import reachable
from lab.papers.leonarczyk.figure_data import (
    SPIKE,
    cumulative,
    example,
    fixed,
    over_tuples,
    pid_terms,
    steps_by_latency,
)
from lab.papers.leonarczyk.grid import OURS, PUBLISHED, Setup, bundle_figures, rows_of, setups, thesis_workload
from lab.papers.leonarczyk.plant import MACHINE, CostLaw, Paced, Phase, Pipeline, Source, Trace, Workload, simulate
from lab.papers.leonarczyk.tables import FIGURES, itemized_hit, printed_setup
from lab.papers.pictures import picture

SMALL = Workload.of([Phase("increasing", 3000, 1), Phase("spike", 1000, 3), Phase("binary", 1500, 2)])
PLAIN = CostLaw((1.0, 1.0), (0.5, 0.5), cv=0.0, drift_cv=0.0, outliers=0.0)
PID = Setup("pid", (("kp", 10.0), ("ki", 15.0), ("kd", 3.0), ("sample", 1)))


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


def test_noise_leaves_a_share_to_hit() -> None:
    """3 % of noise put 5 % at 1.7 standard deviations: about nine of ten, whatever the drift, for it is known."""
    for cv, least, most in ((0.005, 0.95, 1.0), (0.03, 0.85, 0.97), (0.28, 0.05, 0.35)):
        law = CostLaw(cv=cv, drift_cv=0.1, outliers=0.0, drift_bundles=20)
        assert least <= itemized_hit(reachable(SMALL, Pipeline(law))) <= most


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


# --- what the thesis prints, beside ours ------------------------------------------------------------------------------


NOT_REPRODUCED = {*((name, "batched_hit") for name in ("faf", "pbaf", "pmbaf", "pid")), ("faf", "sd_distance")}
"""Cells of tables 5.1, 5.4 and 5.5 at 5 % that are off by more (docs/research/controllers.md)."""


@pytest.mark.parametrize(("controller", "figure"), sorted(set(product(PUBLISHED, FIGURES)) - NOT_REPRODUCED))
def test_a_printed_best_setup_has_about_the_printed_value(controller: str, figure: str) -> None:
    """One run of a million tuples each, at 5 %, within the tolerance that ``page`` gives its verdicts with."""
    each = FIGURES[figure]
    cell = each.printed[controller][0]
    first, *_ = rows_of(printed_setup(controller, 0.05, cell), thesis_workload(), MACHINE)
    assert abs(100 * each.value(first) - cell.value) <= page.POINTS[figure]


def test_recorded_figures_are_what_the_plant_gives() -> None:
    """One run of PMBAF's best setup lies within three deviations of the ten that are recorded."""
    found = json.loads(page.RECORDED.read_text())
    cell = next(each for each in found["cells"] if (each["figure"], each["controller"]) == ("itemized_hit", "pmbaf"))
    first, *_ = rows_of(Setup("pmbaf", (("step", 10.0), ("sample", 1)), 0.05), thesis_workload(), MACHINE)
    assert abs(100 * itemized_hit(first) - cell["ours"]) <= 3 * cell["deviation"]


def test_the_page_has_every_figure_and_table_of_ours() -> None:
    found = page.lines()
    named = " ".join(finding.item for finding in found)
    for item in ("4.1", "4.2", "4.4", "4.5", "4.6", *(f"5.{number}" for number in range(1, 10))):
        assert f" {item}" in f" {named}"
    verdicts = {finding.item: finding.verdict for finding in found}
    assert verdicts["table 5.1: itemized hit of the printed setups"] == "reproduced"


@pytest.mark.parametrize(("spike", "mad", "sd"), [(0.0, 0.20, 0.23), (SPIKE, 0.33, 0.57)])
def test_the_metrics_are_those_printed_with_figures_4_5_and_4_6(spike: float, mad: float, sd: float) -> None:
    """The thesis prints per cent: half a point. As printed, equation 4.5 would give 0.7 and 1.8 % for the SD."""
    latencies = [float(str(line[1])) for line in example(spike).lines]
    figures = bundle_figures(latencies, np.ones(len(latencies)), 1.0, 0.05)
    assert (figures.mad_distance, figures.sd_distance) == pytest.approx((mad, sd), abs=0.005)


def test_by_hand() -> None:
    """Target 10, band 9 … 11. Hits: 9 (4 items) and 11 (2), of 4 bundles and 10 items.
    Distances 1, 1, 4, 2: their mean is 2, the mean of their squares 22 / 4 = 5.5."""
    figures = bundle_figures([9, 11, 14, 8], [4, 2, 1, 3], target_s=10, threshold=0.1)
    assert figures.batched_hit == 0.5
    assert figures.itemized_hit == 0.6
    assert figures.mad_distance == pytest.approx(0.2)
    assert figures.sd_distance == pytest.approx(5.5**0.5 / 10)
