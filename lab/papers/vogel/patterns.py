"""Vogel et al. 2021, "Online and Transparent Self-Adaptation of Stream Parallel Patterns": figures 2 and 4 to 8."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from lab.papers.report import EQUAL, Finding, command, holds, less, near, worst
from lab.papers.vogel import replicas
from lab.papers.vogel.record import Recorded, Run, recorded, values

RANK_SEQUENTIAL, RANK_PARALLEL = ("1", "2", "3", "4", "6", "7", "9", "15"), ("5", "8", "10", "11", "12", "13", "14")


def findings() -> list[Finding]:
    """Return what both papers print beside the recorded runs. Raises: OSError when there is no record."""
    found = recorded()
    visited = [_visits(found, *row) for row in VISITED]
    of_2021 = [*_figure_2(found), *visited, *_figure_7(found.runs["fig07_ferret_adaptive"]), _figure_8(found)]
    return [*of_2021, *replicas.findings(found)]


def _mean_ms(runs: Sequence[Run]) -> float:
    return fmean(values(runs, "latency_ms"))


def _figure_2(found: Recorded) -> Iterator[Finding]:
    at_10, full = found.runs["fig02_ferret_static-a"], found.runs["fig02_ferret_static-b"]
    fast = values(max((at_10[name] for name in RANK_PARALLEL), key=_mean_ms), "latency_ms")
    slow = values(min((at_10[name] for name in RANK_SEQUENTIAL), key=_mean_ms), "latency_ms")
    least = min(RANK_PARALLEL, key=lambda name: _mean_ms(full[name]))
    best, twelve = values(full[least], "latency_ms"), values(full["12"], "latency_ms")
    ten, merged = values(full["10"], "achieved_per_s"), values(full["13"], "achieved_per_s")
    run = command("fig02_ferret_static")
    ours = f"at most {fmean(fast):.0f} ms if rank is replicated, else at least {fmean(slow):.0f} ms"
    yield Finding("2021, figure 2: latency", "low only if stage rank is replicated", ours, less(fast, slow), "", run)
    ours = f"{fmean(twelve):.0f} ms; the best composition, {least}, has {fmean(best):.0f} ms"
    why, item, equal = "we assume 14.8 items/s", "2021, figure 2: latency of composition 12", fmean(merged) / fmean(ten)
    yield Finding(item, "most workers, but not the best latency", ours, less(best, twelve), why, run)
    ours = f"{fmean(merged):.2f} items/s with merged stages, {fmean(ten):.2f} items/s without"
    verdict = holds(abs(equal - 1) <= EQUAL)
    yield Finding("2021, figure 2: merging light stages", "no impact", ours, verdict, "", run)
    yield Finding("2021, figure 2: TBB", "comparable to FastFlow", "–", "not run", "TBB is a C++ task pool", run)


Visits = tuple[float, float, tuple[str, ...]]
"""From and to a time (s), and the compositions that became active, in order."""
EVERY = tuple(str(number) for number in range(1, 8))
FERRET = ("1", *RANK_PARALLEL, "13")
VISITED: Sequence[tuple[str, str, str, str, Sequence[Visits]]] = (
    ("4a", "fig04a_synthetic_balanced", "vogel", "1 until 30 s; then 7, in one step; 1 after 50 s",
     ((0, 30, ("1",)), (30, 50, ("7",)), (50, 90, ("1",)))),
    ("4a", "fig04a_synthetic_balanced", "pdp21", "tries all, keeps 1; tries all again, keeps 7; goes back to 1",
     ((0, 30, (*EVERY, "1")), (30, 50, EVERY[1:]), (50, 90, (*EVERY, "1")))),
    ("4b", "fig04b_synthetic_unbalanced", "vogel", "3, 5, 6, 7, then 6", ((0, 90, ("1", "3", "5", "6", "7", "6")),)),
    ("4b", "fig04b_synthetic_unbalanced", "pdp21", "tries all and keeps 6", ((0, 90, (*EVERY, "6")),)),
    ("5a", "fig05a_ferret_throughput", "vogel", "tries all with replicated rank and keeps 13", ((0, 120, FERRET),)),
    ("5b", "fig05b_person_throughput", "vogel", "4 and 5, then 4; goes back to 1",
     ((50, 150, ("4", "5", "4")), (150, 210, ("1",)))),
    ("6a", "fig06a_ferret_latency", "vogel", "13; near 100 s it tries 10, 12 and 13, and keeps 13",
     ((0, 95, FERRET), (95, 200, ("10", "12", "13")))),
    ("6b", "fig06b_person_latency", "vogel", "1; 4 after 50 s; no change after 300 s",
     ((0, 50, ("1",)), (50, 300, ("4", "5", "4")), (300, 400, ()))),
)  # fmt: skip


def _visits(
    found: Recorded, figure: str, experiment: str, strategy: str, printed: str, expected: Sequence[Visits]
) -> Finding:
    (run,) = found.runs[experiment][strategy]
    seen = [tuple(name for at_s, name in run.visited if from_s < at_s <= to_s) for from_s, to_s, _ in expected]
    texts = [f"{(new or ['unchanged'])[-1]} at {at:g} s" for (_, at, _), new in zip(expected, seen, strict=True)]
    verdict = holds(seen == [names for *_, names in expected])
    item, ours = f"2021, figure {figure}: {strategy}", f"composition {', '.join(texts)}"
    return Finding(item, printed, ours, verdict, "", command(experiment))


def _figure_7(runs: Mapping[str, Sequence[Run]]) -> Iterator[Finding]:
    run = command("fig07_ferret_adaptive")
    for item, of, printed in (("throughput", "achieved_per_s", -6.3), ("latency", "latency_ms", -39.7)):
        ours, twelve = values(runs["vogel"], of), values(runs["12"], of)
        off = 100 * (fmean(ours) / fmean(twelve) - 1)
        verdict, why = worst(near(off, printed), less(ours, twelve)), "arrivals are random"
        name = f"2021, figure 7: {item} relative to composition 12"
        yield Finding(name, f"{printed:+.1f} %", f"{off:+.1f} %", verdict, why, run)
    ends = [each.visited[-1][1] for each in runs["vogel"]]
    text = ", ".join(f"{name} in {ends.count(name)} of {len(ends)} runs" for name in sorted(set(ends)))
    yield Finding("2021, figure 7: composition kept", "13", text, holds(set(ends) == {"13"}), "", run)


def _figure_8(found: Recorded) -> Finding:
    runs = found.runs["fig08_person_adaptive"]
    fixed = [each for name, each in runs.items() if name.isdigit()]
    best = max(fmean(values(each, "achieved_per_s")) for each in fixed)
    of_rate = fmean(values(runs["vogel"], "achieved_per_s")) / best
    of_latency = _mean_ms(runs["vogel"]) / min(map(_mean_ms, fixed))
    ours = f"{of_rate:.3f} times the best throughput, {of_latency:.3f} times the best latency"
    verdict = holds(of_rate >= 1 - EQUAL and of_latency <= 1 + EQUAL)
    run = command("fig08_person_adaptive")
    return Finding("2021, figure 8", "competitive with the best static composition", ours, verdict, "", run)
