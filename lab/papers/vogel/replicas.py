"""Vogel et al. 2018, the latency-aware number of replicas in SPar: figures 2 and 4 to 7.

Two sets of parameters are fitted, each to one figure: the speed of paired threads to figure 2, the cost of an item and
its drift to figure 4. Figures 5 to 7 test them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

from lab.papers.report import Finding, Verdict
from lab.papers.vogel.judging import EQUAL, command, holds, less, rate, shown, values, worst
from lab.papers.vogel.record import Recorded, Run

HARDLY = 0.1
"""Share of violated steps up to which a constraint counts as hardly violated."""
FITTED, TESTED = "cost of an item and its drift are fitted to this figure", "with the parameters of figures 2 and 4"


def findings(found: Recorded) -> list[Finding]:
    return [*_figure_2(found), *_Regulated(found).findings()]


def _figure_2(found: Recorded) -> Iterator[Finding]:
    runs = {int(name): each for name, each in found.runs["spar_fig02_lane_replicas"].items()}
    rates = {n: values(each, rate) for n, each in runs.items()}
    inside = {n: values(each, lambda run: run.inside_ms) for n, each in runs.items()}
    swings = {n: values(each, lambda run: run.oscillation_ms) for n, each in runs.items()}
    first, second = sorted(rates, key=lambda n: -fmean(rates[n]))[:2]
    rivals = [less(each, rates[22]) for n, each in rates.items() if n != 22]
    least = min(inside, key=lambda n: fmean(inside[n]))
    why, run = "the speed of paired threads is fitted to this figure", command("spar_fig02_lane_replicas")
    ours = f"{first}: {shown(rates[first], 1)}/s; next {second}: {shown(rates[second], 1)}/s"
    yield Finding("2018, figure 2a: best throughput", "22 replicas", ours, worst(*rivals), why, run)
    ours = "; ".join(f"{n}: {shown(inside[n])} ms, {shown(rates[n], 1)}/s" for n in (10, 11, 12))
    rise, fall = less(inside[10], inside[11]), less(rates[11], rates[10])
    printed = "latency rises, throughput falls"
    yield Finding("2018, figure 2: beyond 10", printed, ours, worst(rise, fall), f"{why}; 11 against 10", run)
    ours = f"{least}: {shown(inside[least])} ms; 22: {shown(inside[22])} ms"
    verdict = worst(holds(least <= 4), less(inside[least], inside[22]))
    yield Finding("2018, figure 2b: least latency", "few replicas", ours, verdict, why, run)
    ours = ", ".join(f"{n}: {shown(swings[n], 1)} ms" for n in (4, 10, 12, 22))
    verdict = less(swings[10], swings[12])
    why = "standard deviation of half seconds; 12 against 10"
    yield Finding("2018, figure 2b: oscillation", "grows with the replicas", ours, verdict, why, run)


class _Regulated:
    """Figures 4 to 7: 180 and 200 ms, thresholds of 10 and 20 %, scaling factors (SF) 1 and 2."""

    def __init__(self, found: Recorded) -> None:
        self._found = found

    def findings(self) -> Iterator[Finding]:
        command_line = command("spar_fig04_07_lane_latency")
        for item, printed, ours, verdict, why in self._rows():
            yield Finding(f"2018, figure {item}", printed, ours, verdict, why, command_line)

    def _rows(self) -> Iterator[tuple[str, str, str, Verdict, str]]:
        violated, overall, changed = self._violated, self._overall, self._changed
        rates, stable = _both(overall, [4], 1, "/s"), _both(changed, [5], 0)
        yield "4: throughput", "SF 2 more", rates, less(overall(4, 1), overall(4, 2)), f"whole run; {FITTED}"
        share = {n: _both(violated, [n], 0, " %", 100) for n in (4, 5, 6, 7)}
        yield "4: violations", "SF 2 more", share[4], less(violated(4, 1), violated(4, 2)), FITTED
        fewer = worst(*(less(violated(5, factor), violated(4, factor)) for factor in (1, 2)))
        yield "5: violations", "fewer than with 10 %", share[5], fewer, TESTED
        yield "5: throughput", "no significant decrease", *self._kept(4)
        yield "5: stability", "SF 1 more stable", stable, less(changed(5, 1), changed(5, 2)), f"changes; {TESTED}"
        moved, why = _both(self._moved, [5], 0), f"replicas added and removed; {TESTED}"
        yield "5: overreaction", "SF 1 avoids it", moved, less(self._moved(5, 1), self._moved(5, 2)), why
        yield "6: violations", "SF 1 fewer", share[6], less(violated(6, 1), violated(6, 2)), TESTED
        hardly = holds(max(violated(7, 1)) <= HARDLY)
        why = f"the last seconds of the film are not modelled; at most {HARDLY:.0%} of the steps in each run"
        yield "7: violations", "SF 1: only in the last seconds", share[7], hardly, why
        yield "7: throughput", "similar with 10 and 20 %", *self._kept(6)
        best = [
            less(violated(wide, 1), violated(figure, factor))
            for narrow, wide in ((4, 5), (6, 7))
            for figure, factor in ((narrow, 1), (narrow, 2), (wide, 2))
        ]
        yield "4 to 7: best", "SF 1 with 20 %", "; ".join(share.values()), worst(*best), "fewest violations of each"

    def _kept(self, narrow: int) -> tuple[str, Verdict, str]:
        """Compare the throughput of 20 % with that of 10 %, at SF 1."""
        kept = fmean(self._overall(narrow + 1, 1)) / fmean(self._overall(narrow, 1))
        return f"{kept:.3f} of that with 10 %", holds(abs(kept - 1) <= EQUAL), f"within {EQUAL:.0%}; {TESTED}"

    def _runs(self, figure: int, factor: int) -> Sequence[Run]:
        return self._found.runs[f"spar_fig04_07_lane_latency-fig0{figure}_sf{factor}"]["spar"]

    def _violated(self, figure: int, factor: int) -> list[float]:
        return [run.above[180 if figure < 6 else 200] for run in self._runs(figure, factor)]

    def _overall(self, figure: int, factor: int) -> list[float]:
        return values(self._runs(figure, factor), lambda run: run.overall_per_s)

    def _changed(self, figure: int, factor: int) -> list[float]:
        return values(self._runs(figure, factor), lambda run: run.changes)

    def _moved(self, figure: int, factor: int) -> list[float]:
        return values(self._runs(figure, factor), lambda run: run.moved)


def _both(
    of: Callable[[int, int], list[float]], figures: Sequence[int], digits: int, unit: str = "", times: float = 1.0
) -> str:
    """Return the values of both scaling factors."""
    sides = [(n, *(shown(of(n, factor), digits, unit, times) for factor in (1, 2))) for n in figures]
    return "; ".join(f"figure {n}: SF 1 {one}, SF 2 {two}" for n, one, two in sides)
