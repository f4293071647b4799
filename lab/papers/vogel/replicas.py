"""Vogel et al. 2018, the latency-aware number of replicas in SPar: figures 2 and 4 to 7.

Two sets of parameters are fitted, each to one figure: the speed of paired threads to figure 2, the cost of an item and
its drift to figure 4. Figures 5 to 7 test them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from lab.papers.report import EQUAL, Finding, Verdict, command, holds, less, shown, worst
from lab.papers.vogel.record import Recorded, values

HARDLY = 0.1
"""Share of violated steps up to which a constraint counts as hardly violated."""
FITTED = "fitted"


def findings(found: Recorded) -> list[Finding]:
    return [*_figure_2(found), *_regulated(_Figures(found)), *_on_workers(found)]


def _figure_2(found: Recorded) -> Iterator[Finding]:
    runs = {int(name): each for name, each in found.runs["spar_fig02_lane_replicas"].items()}
    names = ("achieved_per_s", "inside_ms", "oscillation_ms")
    rates, inside, swings = ({n: values(each, name) for n, each in runs.items()} for name in names)
    first, second = sorted(rates, key=lambda n: -fmean(rates[n]))[:2]
    least = min(inside, key=lambda n: fmean(inside[n]))
    why, run = FITTED, command("spar_fig02_lane_replicas")
    ours = f"with {first}: {shown(rates[first], 1)} items/s; next best, with {second}: {shown(rates[second], 1)}"
    verdict = worst(*(less(each, rates[22]) for n, each in rates.items() if n != 22))
    yield Finding("2018, figure 2a: best throughput", "22 replicas", ours, verdict, why, run)
    ours = "; ".join(f"{n}: {shown(inside[n])} ms, {shown(rates[n], 1)}/s" for n in (10, 11, 12))
    verdict = worst(less(inside[10], inside[11]), less(rates[11], rates[10]))
    printed = "latency rises, throughput falls"
    yield Finding("2018, figure 2: beyond 10 replicas", printed, ours, verdict, f"{why}; 11 is compared with 10", run)
    ours = f"{least}: {shown(inside[least])} ms; 22: {shown(inside[22])} ms"
    verdict = worst(holds(least <= 4), less(inside[least], inside[22]))
    yield Finding("2018, figure 2b: least latency", "few replicas", ours, verdict, why, run)
    ours = ", ".join(f"{n}: {shown(swings[n], 1)} ms" for n in (4, 10, 12, 22))
    verdict, why = less(swings[10], swings[12]), "standard deviation over half seconds; 12 is compared with 10"
    yield Finding("2018, figure 2b: oscillation", "grows with the replicas", ours, verdict, why, run)


def _on_workers(found: Recorded) -> Iterator[Finding]:
    """Return the findings on two real cores: from two replicas on, the runner and other processes contend."""
    runs, name = found.runs["workers_lane_regulated"], "workers_lane_regulated"
    rates, latencies = (
        {n: values(each, field) for n, each in runs.items()} for field in ("achieved_per_s", "latency_ms")
    )
    ours = "; ".join(f"{n}: {shown(rates[n], 1)}/s, {shown(latencies[n])} ms" for n in runs)
    verdict = worst(less(rates["1"], rates["2"]), less(latencies["2"], latencies["4"]))
    why = f"{found.facts[name]['machine']}, busy, 2026-11-26; latency counts from the read on; two runs each"
    printed = "more replicas than cores raise throughput and latency"
    yield Finding("2018: Lane Detection on real workers, by replicas", printed, ours, verdict, why, command(name))


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
        times, unit = (100.0, "%") if name == "violated" else (1.0, "items/s" if name == "overall_per_s" else name)
        one, two = (shown(self.of(name, figure, factor), digits, times) for factor in (1, 2))
        return f"SF 1: {one} {unit}, SF 2: {two} {unit}"

    def less(self, name: str, small: tuple[int, int], large: tuple[int, int]) -> Verdict:
        return less(self.of(name, *small), self.of(name, *large))


def _row(item: str, printed: str, ours: str, verdict: Verdict, why: str) -> Finding:
    return Finding(f"2018, figure {item}", printed, ours, verdict, why, command("spar_fig04_07_lane_latency"))


def _regulated(runs: _Figures) -> Iterator[Finding]:
    rate, violated = "overall_per_s", "violated"
    yield _row("4: throughput", "higher with SF 2", runs.both(rate, 4, 1), runs.less(rate, (4, 1), (4, 2)), FITTED)
    yield _row("4: violations", "more with SF 2", runs.both(violated, 4), runs.less(violated, (4, 1), (4, 2)), FITTED)
    fewer = worst(*(runs.less(violated, (5, factor), (4, factor)) for factor in (1, 2)))
    yield _row("5: violations", "fewer violations than with a threshold of 10 %", runs.both(violated, 5), fewer, "")
    yield _row("5: throughput", "no significant decrease by a threshold of 20 %", *_kept(runs, 4))
    for name, item in (("changes", "changes of the workers"), ("moved", "workers moved")):
        verdict = runs.less(name, (5, 1), (5, 2))
        yield _row(f"5: stability, {item}", "SF 1 is more stable", runs.both(name, 5), verdict, "")
    yield _row("6: violations", "fewer with SF 1", runs.both(violated, 6), runs.less(violated, (6, 1), (6, 2)), "")
    hardly = holds(max(runs.of(violated, 7, 1)) <= HARDLY)
    why = f"at most {HARDLY:.0%} of the steps; the film's last seconds are not modelled"
    yield _row("7: violations", "SF 1 violates only in the last seconds", runs.both(violated, 7), hardly, why)
    yield _row("7: throughput", "similar with thresholds of 10 and 20 %", *_kept(runs, 6))
    others: Sequence[tuple[int, tuple[int, int]]] = [
        (n, each) for n in (5, 7) for each in ((n - 1, 1), (n - 1, 2), (n, 2))
    ]
    best = worst(*(runs.less(violated, (wide, 1), other) for wide, other in others))
    yield _row("4 to 7: best", "SF 1 with threshold 20 % has the fewest violations", "see violations above", best, "")


def _kept(runs: _Figures, narrow: int) -> tuple[str, Verdict, str]:
    """Compare the throughput at 20 % with the throughput at 10 %, for SF 1."""
    kept = fmean(runs.of("overall_per_s", narrow + 1, 1)) / fmean(runs.of("overall_per_s", narrow, 1))
    return f"with 20 %, {kept:.3f} of the throughput with 10 %", holds(abs(kept - 1) <= EQUAL), ""
