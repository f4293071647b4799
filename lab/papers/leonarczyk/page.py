"""Every figure and table of Leonarczyk 2024 beside ours, with verdicts computed from the recorded figures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from lab.papers.leonarczyk import published
from lab.papers.leonarczyk.figure_data import LATENCIES, steps_by_latency
from lab.papers.leonarczyk.plant import PHASES
from lab.papers.report import Finding, Verdict, between

RECORDED = Path(__file__).parent / "recorded" / "figures.json"
"""The record that ``COMMAND`` has written; the page runs nothing again."""
COMMAND = "python -m lab.benchmarks.batch_controllers"
REPRODUCED, TREND = 0.75, 0.5
"""Shares of the cells in the tolerance."""
POINTS: Mapping[str, float] = {"batched_hit": 10.0, "itemized_hit": 8.0, "mad_distance": 8.0, "sd_distance": 15.0}
"""Tolerances of cells, in points."""
SPREAD = 5.0
"""Minimum difference in points with which a single run counts as better: twice the runs' deviation."""
RUNS = 10
"""Repetitions of printed setups, as in the thesis."""
PATTERN_POINTS, TIMES = 10.0, 0.2
"""Tolerance of table 5.3, in points, and of plain quantities, as a share of the printed one."""
REASONS: Mapping[str, str] = {
    "figure 5.1": "stages overlap more than in the thesis",
    "section 5.2": "the drift of times affects the fastest tuples too",
    "batched hit of the printed setups": "latencies of the hardest tuples drift beyond the threshold",
    "deviation of the batched hit": "simulated runs differ less than real runs",
    "figure 5.8": "pmbaf leads by less than twice the standard error",
    "figure 5.3": "pmbaf and mbaf differ by less than repeated runs do",
    "figure 5.4": "batched hits of the binary pattern are too low",
    "figure 5.5": "with samples of 5 or more, faf reacts to spikes too late",
}
"""Reasons for findings that differ, by a part of their name."""
MEASURED = (
    Finding(
        "section 5.1: speed-up of the app on a GPU by bundles of 115 items",
        "25 times; mostly the same with larger bundles (RTX 3090)",
        "72 times; bundles of 1,000: 304 times (H200, without Recompose)",
        "trend only",
        "one round on 2026-11-26; our GPU gains from larger bundles",
        "recompose run military_server -o kernel=gpu",
    ),
    Finding(
        "tables 5.1, 5.5: itemized hit of the app on real workers, at 3 ms",
        "30.1 to 38.5",
        "4.7 ± 0.8 to 9.4 ± 3.3",
        "not reproduced",
        "two cores with a load average of 5 to 18 (2026-11-26)",
        "python -m lab.benchmarks.military_server --controllers",
    ),
)
"""Results of the app on machines; no run repeats them."""


def lines(recorded: Path = RECORDED) -> list[Finding]:
    """Return a finding for each figure and table. Raises: OSError when nothing is recorded."""
    found = json.loads(recorded.read_text(encoding="utf-8"))
    parts = (_metrics, _fixed_sizes, _hits, _patterns, _distances, _pid)
    return [*(_reasoned(finding) for part in parts for finding in part(found)), *MEASURED]


def _reasoned(finding: Finding) -> Finding:
    """Return a finding with the reason why it is not reproduced."""
    against = [why for part, why in REASONS.items() if part in finding.item and finding.verdict != "reproduced"]
    return replace(finding, why="; ".join(filter(None, [finding.why, *against])))


def verdict(errors: Sequence[float], tolerance: float) -> Verdict:
    """Judge by the share of errors within the tolerance."""
    within = sum(abs(each) <= tolerance for each in errors) / len(errors)
    return "reproduced" if within >= REPRODUCED else "trend only" if within >= TREND else "not reproduced"


def _cells(found: Mapping[str, Any], figure: str, *, pid: bool, threshold: float | None = None) -> list[dict[str, Any]]:
    cells = [cell for cell in found["cells"] if cell["figure"] == figure and (cell["controller"] == "pid") == pid]
    return [cell for cell in cells if threshold in (None, cell["threshold"])]


def _of_cells(item: str, cells: Sequence[Mapping[str, Any]], tolerance: float, ours: str = "ours") -> Finding:
    off = [cell[ours] - cell["printed"] for cell in cells]
    strict = [cell for cell in cells if cell["threshold"] == published.THRESHOLDS[0]]
    within = sum(abs(each) <= tolerance for each in off)
    printed, told = (between([cell[key] for cell in strict], ".1f") for key in ("printed", ours))
    why = f"{within} of {len(cells)} figures within {tolerance:g} points" * (within < len(cells))
    return Finding(item, printed, told, verdict(off, tolerance), why, COMMAND)


def _near(item: str, printed: Sequence[float], ours: Sequence[float], unit: str, more: bool = True) -> Finding:
    """Judge quantities by their ratio to the printed ones; ``more``: further conditions."""
    errors = [mine / there - 1 for mine, there in zip(ours, printed, strict=True)]
    met = all(abs(each) <= TIMES for each in errors) and more
    judged: Verdict = "reproduced" if met else "trend only" if more else "not reproduced"
    there, here = (" and ".join(f"{float(f'{each:.4g}'):,g}" for each in values) for values in (printed, ours))
    return Finding(item, f"{there} {unit}", f"{here} {unit}", judged, "", COMMAND)


def _held(item: str, printed: str, ours: str, claims: Sequence[bool]) -> Finding:
    """Judge statements of the thesis: all hold, some hold, or none holds."""
    judged: Verdict = "reproduced" if all(claims) else "trend only" if any(claims) else "not reproduced"
    return Finding(item, printed, ours, judged, "", COMMAND)


def _metrics(found: Mapping[str, Any]) -> Iterator[Finding]:
    cycles = [(phase.tuples, phase.cycles) for phase in PHASES]
    thesis = [(200_000, 1), (100_000, 5), (200_000, 1), (200_000, 5), (300_000, 10)]
    yield _held("table 4.1, figure 4.4: workload", "five phases of 1 to 10 cycles", "the same", [cycles == thesis])
    steps: dict[tuple[object, object], Any] = {(name, ms): step for name, ms, step in steps_by_latency().lines}
    yield _held(
        "figure 4.2: step sizes at latencies far below the target of 50 ms",
        "mbaf at most 20, pmbaf more",
        f"at 1 ms, mbaf {steps['mbaf', 1]:.1f} and pmbaf {steps['pmbaf', 1]:.0f}",
        [
            {steps["faf", ms] for ms in LATENCIES} == {-10, 0, 10},
            max(steps["mbaf", ms] for ms in LATENCIES) <= 20,
            [ms for ms in LATENCIES if steps["pmbaf", ms] == steps["pbaf", ms]] == list(range(35, 91)),
            steps["pmbaf", 10] > 2 * steps["mbaf", 10],
        ],
    )
    (mad, sd), (spiky_mad, spiky_sd) = found["examples"]
    for item, there, ours in (
        ("figure 4.5: MAD and SD distance of rising latencies", (20, 23), (mad, sd)),
        ("figure 4.6: MAD and SD distance with two spikes, of a size that we chose", (33, 57), (spiky_mad, spiky_sd)),
    ):
        yield _held(
            item, f"{there[0]} % and {there[1]} %", f"{100 * ours[0]:.1f} % and {100 * ours[1]:.1f} %",
            [round(100 * each) == printed for each, printed in zip(ours, there, strict=True)],
        )  # fmt: skip


def _fixed_sizes(found: Mapping[str, Any]) -> Iterator[Finding]:
    rates = {size: rate for size, _, rate in found["fixed"]}
    latencies = {size: latency_ms for size, latency_ms, _ in found["fixed"]}
    ten_more = (latencies[100] - latencies[10]) / 9
    gain, beyond = rates[115] / rates[1], max(rates.values()) / rates[115]
    yield _held(
        "figure 5.1: speed-up by bundles of 115 items",
        "25 times; larger bundles gain little; ten more items add 1 ms",
        f"{gain:.1f} times; larger bundles gain {beyond - 1:.0%}; ten more items add {ten_more:.2f} ms",
        [abs(gain / 25 - 1) <= TIMES, beyond < 1.1, 0.5 < ten_more < 2],
    )
    seconds = [1e6 / rates[size] for size in (1, 100)]
    yield _near("figure 5.2: time of a million tuples in bundles of 1 and of 100", [300.0, 12.0], seconds, "s")
    yield _near("section 5.2: least and greatest latency of single tuples", [0.15, 5.0], found["single_ms"], "ms")


def _hits(found: Mapping[str, Any]) -> Iterator[Finding]:
    for label, figure in (("itemized", "itemized_hit"), ("batched", "batched_hit")):
        cells = _cells(found, figure, pid=False)
        yield _of_cells(f"table 5.1: {label} hit of the printed setups", cells, POINTS[figure])
        yield _of_cells(f"table 5.1: {label} hit, best of our grid", cells, POINTS[figure], "best")
    every = [cell for cell in found["cells"] if cell["figure"] == "itemized_hit" and cell["threshold"] == 0.05]
    first, second, third, *_ = ranked = sorted(every, key=lambda cell: -cell["ours"])
    yield _held(
        "figure 5.8: best itemized hits", "pid is best, then pmbaf",
        ", ".join(f"{cell['controller']} {cell['ours']:.1f}" for cell in ranked[:3]),
        [first["controller"] == "pid" and _beats(first, second),
         second["controller"] == "pmbaf" and _beats(second, third)],
    )  # fmt: skip
    steps = {cell["controller"]: cell["best with"]["step"] for cell in every if "step" in cell["best with"]}
    there = {cell["controller"]: cell["with"]["step"] for cell in every if "step" in cell["with"]}
    yield _held(
        "table 5.1: step with the best itemized hit", between(there.values(), "g"),
        f"the same for {sum(steps[n] == there[n] for n in there)} of {len(there)} controllers",
        [abs(steps[n] - there[n]) <= 5 for n in there],
    )  # fmt: skip
    for place, label in enumerate(("batched", "itemized")):
        cells = _cells(found, f"{label}_hit", pid=False, threshold=0.05)
        ours = {cell["controller"]: cell["deviation"] for cell in cells}
        printed = {name: each[place] for name, each in published.HIT_DEVIATION.items()}
        beyond = [0.0 if 0.5 <= ours[name] / each <= 2 else 1.0 for name, each in printed.items()]
        item, why = f"table 5.2: deviation of the {label} hit over ten runs", "the tolerance is a factor of 2"
        theirs, mine = (between(each.values(), ".1f") for each in (printed, ours))
        yield Finding(item, theirs, mine, verdict(beyond, 0.5), why, COMMAND)
    yield from _courses(found)


def _beats(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether a mean is higher by more than twice the error of the difference."""
    error = ((one["deviation"] ** 2 + other["deviation"] ** 2) / RUNS) ** 0.5
    return bool(one["ours"] - other["ours"] > 2 * error)


def _courses(found: Mapping[str, Any]) -> Iterator[Finding]:
    by_step: dict[str, list[float]] = {}
    for name, _, hit in found["steps"]:
        by_step.setdefault(name, []).append(100 * hit)
    lost = {name: max(hits) - hits[-1] for name, hits in by_step.items()}
    yield _held(
        "figure 5.3: points of itemized hit lost at step 20", "pbaf and pmbaf lose little, faf and mbaf lose much",
        ", ".join(f"{name} {each:.1f}" for name, each in lost.items() if name != "pbaf-wt"),
        [lost[one] + SPREAD < min(lost["faf"], lost["mbaf"]) for one in ("pbaf", "pmbaf")],
    )  # fmt: skip
    gaps = {name: 100 * (batched - itemized) for name, (batched, itemized) in found["phases"].items()}
    yield _held(
        "figure 5.4: batched minus itemized hit of pmbaf", "alike until the binary pattern, then higher",
        f"before it {between([*gaps.values()][:3], '.1f')}; binary {gaps['binary']:.1f}, wave {gaps['wave']:.1f}",
        [abs(gaps["increasing"]) < 10 and abs(gaps["decreasing"]) < 10, gaps["binary"] > 10, gaps["wave"] > 5],
    )  # fmt: skip
    hits = {(int(sample), pattern): 100 * hit for pattern, sample, hit in found["samples"]}
    yield _held(
        "figure 5.5: batched hit of faf (step 5) with samples of 1, 10 and 20",
        "rises from 1 to 10, falls at 20",
        "; ".join(f"{of} {', '.join(f'{hits[n, of]:.1f}' for n in (1, 10, 20))}" for of in ("increasing", "spike")),
        [*(hits[10, pattern] > hits[1, pattern] + SPREAD for pattern in ("increasing", "decreasing", "spike")),
         hits[20, "increasing"] < hits[10, "increasing"] - SPREAD],
    )  # fmt: skip


def _patterns(found: Mapping[str, Any]) -> Iterator[Finding]:
    off = [
        100 * found["patterns"][name][pattern] - value
        for name, of in published.BY_PATTERN.items()
        for pattern, value in of.items()
    ]
    means = [
        {p: fmean(of[p] for of in table.values()) for p in PATTERNS}
        for table in (published.BY_PATTERN, found["patterns"])
    ]
    ours = [100 * value for value in means[1].values()]
    within = sum(abs(each) <= PATTERN_POINTS for each in off)
    yield Finding(
        "table 5.3: itemized hit of five patterns, means", between(means[0].values(), ".1f"), between(ours, ".1f"),
        verdict(off, PATTERN_POINTS), f"{within} of {len(off)} figures within {PATTERN_POINTS:g} points", COMMAND,
    )  # fmt: skip


CONTROLLERS = ["faf", "pbaf", "pbaf-wt", "mbaf", "pmbaf"]
PATTERNS = ("increasing", "spike", "decreasing", "binary", "wave")


def _distances(found: Mapping[str, Any]) -> Iterator[Finding]:
    for label, figure in (("MAD", "mad_distance"), ("SD", "sd_distance")):
        cells = _cells(found, figure, pid=False)
        yield _of_cells(f"table 5.4: {label} distance of the printed setups", cells, POINTS[figure])
        yield _of_cells(f"table 5.4: {label} distance, best of our grid", cells, POINTS[figure], "best")
    slow, reactive = found["throughputs"]
    item = "figures 5.6, 5.7: throughput of pmbaf with steps of 1 and 10"
    yield _near(item, [31_000.0, 59_000.0], [slow, reactive], "items/s", slow < reactive)


def _pid(found: Mapping[str, Any]) -> Iterator[Finding]:
    for figure, tolerance in POINTS.items():
        name = figure.replace("_", " ").replace("mad", "MAD").replace("sd", "SD")
        yield _of_cells(f"table 5.5: {name} of pid", _cells(found, figure, pid=True), tolerance)
    yield _near("figure 5.9: means of the 200 most extreme P and D terms of pid", [-31.0, 2.0], found["terms"], "items")
