"""Vogel et al. 2018, the latency-aware number of replicas in SPar: figures 2 and 4 to 7.

The speed of paired threads is fitted to figure 2, an item's cost and drift to figure 4. Figures 5 to 7 test them.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from lab.papers.report import EQUAL, Finding, Verdict, command, holds, less, worst
from lab.papers.vogel.record import Recorded, values

HARDLY = 0.1
"""Share of violated steps up to which a constraint counts as hardly violated."""


def findings(found: Recorded) -> list[Finding]:
    return [*_figure_2(found), *_regulated(_Figures(found)), *_on_workers(found)]


def _figure_2(found: Recorded) -> Iterator[Finding]:
    runs = {int(name): each for name, each in found.runs["spar_fig02_lane_replicas"].items()}
    names = ("achieved_per_s", "inside_ms", "oscillation_ms")
    rates, inside, swings = ({n: values(each, name) for n, each in runs.items()} for name in names)
    first, second = sorted(rates, key=lambda n: -fmean(rates[n]))[:2]
    least = min(inside, key=lambda n: fmean(inside[n]))
    run = command("spar_fig02_lane_replicas")
    ours = f"{fmean(rates[first]):.1f} items/s with {first}; next best: {fmean(rates[second]):.1f} with {second}"
    verdict = worst(*(less(each, rates[22]) for n, each in rates.items() if n != 22))
    yield Finding("2018, figure 2a: best throughput", "with 22 replicas", ours, verdict, "", run)
    ours = "; ".join(f"{fmean(inside[n]):.0f} ms and {fmean(rates[n]):.1f} items/s with {n}" for n in (10, 11, 12))
    verdict = worst(less(inside[10], inside[11]), less(rates[11], rates[10]))
    printed = "latency rises, throughput falls"
    yield Finding("2018, figure 2: beyond 10 replicas", printed, ours, verdict, "we compare 11 with 10", run)
    ours = f"{fmean(inside[least]):.0f} ms with {least} replica, {fmean(inside[22]):.0f} ms with 22"
    verdict = worst(holds(least <= 4), less(inside[least], inside[22]))
    yield Finding("2018, figure 2b: least latency", "with few replicas", ours, verdict, "", run)
    ours = ", ".join(f"{fmean(swings[n]):.1f} ms with {n}" for n in (4, 10, 12, 22))
    verdict, why = less(swings[10], swings[12]), "we compare 12 with 10"
    yield Finding("2018, figure 2b: standard deviation of latency", "grows with the replicas", ours, verdict, why, run)


def _on_workers(found: Recorded) -> Iterator[Finding]:
    """Return the findings on two real cores: from two replicas on, the runner and other processes contend."""
    runs, name = found.runs["workers_lane_regulated"], "workers_lane_regulated"
    rates, latencies = (
        {n: values(each, field) for n, each in runs.items()} for field in ("achieved_per_s", "latency_ms")
    )
    ours = "; ".join(
        f"{fmean(rates[n]):.1f} items/s and {fmean(latencies[n]):.0f} ms with {n}" for n in ("1", "2", "4")
    )
    verdict = worst(less(rates["1"], rates["2"]), less(latencies["2"], latencies["4"]))
    why = f"{found.facts[name]['machine']}, busy, two runs each, 2026-11-26"
    printed = "more replicas than cores raise throughput and latency"
    yield Finding("2018: replicas of Lane Detection on real workers", printed, ours, verdict, why, command(name))


class _Figures:
    """Runs of figures 4 to 7: 180 and 200 ms, thresholds of 10 and 20 %, scaling factors (SF) 1 and 2."""

    def __init__(self, found: Recorded) -> None:
        self._found = found

    def of(self, name: str, figure: int, factor: int) -> list[float]:
        runs = self._found.runs[f"spar_fig04_07_lane_latency-fig0{figure}_sf{factor}"]["spar"]
        if name == "violated":
            return [run.above[180 if figure < 6 else 200] for run in runs]
        return values(runs, name)

    def both(self, name: str, figure: int, digits: int = 0) -> str:
        times, unit = (100.0, " %") if name == "violated" else (1.0, " items/s" if name == "overall_per_s" else "")
        one, two = (f"{times * fmean(self.of(name, figure, factor)):.{digits}f}{unit}" for factor in (1, 2))
        return f"{one} with factor 1, {two} with 2"

    def less(self, name: str, small: tuple[int, int], large: tuple[int, int]) -> Verdict:
        return less(self.of(name, *small), self.of(name, *large))

    def grows(self, item: str, printed: str, name: str, figure: int, digits: int = 0) -> Finding:
        """Compare scaling factor 1 with 2, which is larger in the paper."""
        verdict = self.less(name, (figure, 1), (figure, 2))
        why = "runs differ by more" if verdict == "trend only" else ""
        return _row(item, printed, self.both(name, figure, digits), verdict, why)


def _row(item: str, printed: str, ours: str, verdict: Verdict, why: str) -> Finding:
    return Finding(f"2018, figure {item}", printed, ours, verdict, why, command("spar_fig04_07_lane_latency"))


def _regulated(runs: _Figures) -> Iterator[Finding]:
    yield runs.grows("4: throughput", "higher with factor 2", "overall_per_s", 4, 1)
    yield runs.grows("4: violations with threshold 10 %", "more with factor 2", "violated", 4)
    fewer = worst(*(runs.less("violated", (5, factor), (4, factor)) for factor in (1, 2)))
    yield _row("5: violations with threshold 20 %", "fewer than in figure 4", runs.both("violated", 5), fewer, "")
    yield _row("5: throughput", "a threshold of 20 % does not decrease it significantly", *_kept(runs, 4))
    yield runs.grows("5: changes of the number of workers", "factor 1 is more stable", "changes", 5)
    yield runs.grows("5: workers added or removed", "factor 1 is more stable", "moved", 5)
    yield runs.grows("6: violations", "fewer with factor 1", "violated", 6)
    hardly = holds(max(runs.of("violated", 7, 1)) <= HARDLY)
    why = f"we count up to {HARDLY:.0%} as none"
    yield _row("7: violations", "with factor 1 only in the last seconds", runs.both("violated", 7), hardly, why)
    yield _row("7: throughput", "similar with thresholds of 10 % and 20 %", *_kept(runs, 6))
    others = [(n, each) for n in (5, 7) for each in ((n - 1, 1), (n - 1, 2), (n, 2))]
    best = worst(*(runs.less("violated", (wide, 1), other) for wide, other in others))
    ours = f"in figure 5 (20 %): {runs.both('violated', 5)}"
    yield _row("4 to 7: violations", "fewest with factor 1 and a threshold of 20 %", ours, best, "")


def _kept(runs: _Figures, narrow: int) -> tuple[str, Verdict, str]:
    """Compare the throughput at 20 % with the throughput at 10 %, for SF 1."""
    kept = fmean(runs.of("overall_per_s", narrow + 1, 1)) / fmean(runs.of("overall_per_s", narrow, 1))
    return f"with 20 %, {kept:.3f} times the throughput with 10 %", holds(abs(kept - 1) <= EQUAL), ""
