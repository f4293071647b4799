"""Findings about figures 8 to 14 of Prasaad et al., from the recorded runs: printed, ours, and a computed verdict.

A statement compares two cases by the ratio of their figures within a run. It holds if the ratio is on its side of 1 in
all three runs, and the median further from 1 than the runs are from each other. A statement about several queries is
"reproduced" if it holds for all, and "trend only" if it holds for most.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import exp, inf, log
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from lab.papers.prasaad.figures import ASK, COSTS_US, INGRESS, MOST_WORKERS, Cell, Figure, Metric
from lab.papers.prasaad.runs import Run
from lab.papers.report import Finding, Verdict, between, holds

RECORDED = Path(__file__).with_name("recorded")
COMMAND = "python -m lab.benchmarks.ordered --record"
THREADS = "python -m lab.benchmarks.contention --record"
TABLE_1 = "python -m lab.benchmarks.query_matrix --record"
EQUAL = 0.05
"""Throughputs whose ratio differs from 1 by less in every run are equal: bars show no smaller difference."""
SIMILAR = 0.1
"""The same for keys that are almost even (section 7.2.1): random keys never are quite."""
LINEAR = 0.75
"""Share of linear speed-up from which a speed-up is "almost linear"."""
NEAR = 2.0
"""A latency up to this multiple of the cost of a tuple is "close to" it."""
MANY = ("q2", "q3", "q4")
"""Queries on which LP falls behind (section 7.1)."""


class Ratios(NamedTuple):
    """A ratio in each run."""

    values: tuple[float, ...]

    @property
    def above(self) -> bool:
        """Return whether the first is larger by more than the spread of the runs."""
        return min(self.values) > 1 and self._clear

    @property
    def below(self) -> bool:
        return max(self.values) < 1 and self._clear

    @property
    def _clear(self) -> bool:
        """Compare the distances from 1 by their logarithms, so that twice and half are equally far."""
        return abs(log(median(self.values))) > log(max(self.values) / min(self.values))

    def within(self, share: float) -> bool:
        """Return whether the two differ by no more than ``share`` in every run."""
        return all(abs(each - 1) <= share for each in self.values)

    def __str__(self) -> str:
        return f"{median(self.values):.2f} ({min(self.values):.2f}–{max(self.values):.2f})"


Found = Mapping[str, Ratios]


def rate(run: Run) -> float:
    """Return the throughput; a small value instead of 0, because a ratio must be a number."""
    return max(run.throughput_per_s, 1e-3 * run.bound_per_s)


def latency(run: Run) -> float:
    """Return the latency; one second if no output came."""
    return min(run.latency_ms, 1e3)


Cases = Sequence[tuple[Cell, ...]]


def ratios(figure: Figure, metric: Metric, firsts: Cases, seconds: Cases) -> Ratios:
    """Return, for each run, the geometric mean of first to second over pairs of cases."""
    pairs = [
        [a / b for a, b in zip(figure.values(metric, *first), figure.values(metric, *second), strict=True)]
        for first, second in zip(firsts, seconds, strict=True)
    ]
    return Ratios(tuple(exp(fmean(map(log, run))) for run in zip(*pairs, strict=True)))


def findings(folder: Path = RECORDED) -> list[Finding]:
    """Return all findings in the order of the paper. Raises: OSError when a recorded table is missing."""
    read = partial(Figure.read, folder)
    return [
        _table_1(folder),
        *_schedulers(read("8")), _asking(read("8-ask")), _source(read("8-source")), _erratum(read("ct")),
        _skew(read("9")), _waiting(read("10")), *_queues(read("11")),
        _hybrid(read("11-keys"), "uneven", "the keys come from our tables"),
        *_sending(read("12")), *_sending(read("13")), _sending_on_queries(read("14")),
        *_on_threads(folder), _moved(read("moved")),
        Finding(
            "section 7.1: headline", "millions of tuples/s at a few ms on 16 cores", "–", "not run",
            "we have no machine with 16 cores", "python -m lab.benchmarks.queries",
        ),
    ]  # fmt: skip


def _finding(item: str, printed: str, ours: str, met: bool, why: str = "", command: str = COMMAND) -> Finding:
    return Finding(item, printed, ours, holds(met), why, command)


def _over_queries(item: str, printed: str, found: Found, *, below: bool, why: str = "") -> Finding:
    """Judge a statement about each of several queries."""
    for_it = [each for each in found.values() if (each.below if below else each.above)]
    against = [each for each in found.values() if (each.above if below else each.below)]
    verdict: Verdict = "trend only" if 2 * len(for_it) > len(found) > 2 * len(against) else "not reproduced"
    if len(for_it) == len(found):
        return Finding(item, printed, _told(found), "reproduced", "", COMMAND)
    kind, opposite = "queries" if "q2" in found else "schedulers", f", its opposite for {len(against)}" * bool(against)
    told = f"holds for {len(for_it)} of {len(found)} {kind}{opposite}"
    return Finding(item, printed, _told(found), verdict, f"{told}{why and '; '}{why}", COMMAND)


def _told(found: Found) -> str:
    """Return a median for each scheduler or way, but the lowest and the highest of queries."""
    medians = {name: median(each.values) for name, each in found.items()}
    return between(medians.values()) if "q2" in found else ", ".join(f"{name} {of:.2f}" for name, of in medians.items())


def _by_query(figure: Figure, metric: Metric, first: Cell, second: Cell, *rest: Cell) -> dict[str, Ratios]:
    """Compare two values of the column after the query."""
    return {q: ratios(figure, metric, [(q, first, *rest)], [(q, second, *rest)]) for q in figure.seen("query")}


def _at_price(figure: Figure, first: str, second: str, price: float) -> dict[str, Ratios]:
    """Compare the throughput of two values of the column after query and price."""
    return {q: ratios(figure, rate, [(q, price, first)], [(q, price, second)]) for q in figure.seen("query")}


def _pooled(found: Found) -> Ratios:
    """Return the geometric mean over queries, for each run."""
    runs = zip(*(each.values for each in found.values()), strict=True)
    return Ratios(tuple(exp(fmean(map(log, run))) for run in runs))


def _table_1(folder: Path) -> Finding:
    told = json.loads((folder / "queries.json").read_text(encoding="utf-8"))
    met = all(each["equal"] == each["answers"] > 0 for each in told.values())
    equal, answers = (sum(each[name] for each in told.values()) for name in ("equal", "answers"))
    ours = f"{equal} of {answers} answers equal DuckDB's"
    return _finding("table 1", "queries 1 to 4 and 15", ours, met, "we wrote DuckDB's SQL too", TABLE_1)


def _schedulers(figure: Figure) -> Iterator[Finding]:
    def over(first: str, second: str, metric: Metric = rate) -> dict[str, Ratios]:
        return _by_query(figure, metric, first, second, MOST_WORKERS)

    upto = {"q1": 16, "q15": 12, "q2": 8, "q3": 8, "q4": 8}
    up = {query: ratios(figure, rate, [(query, "ct", most)], [(query, "ct", 2)]) for query, most in upto.items()}
    shares = {query: Ratios(tuple(2 * each / upto[query] for each in found.values)) for query, found in up.items()}
    yield _finding(
        "figure 8a: speed-up with scheduler CT", "almost linear up to 16 cores (query 1), 12 (15), or 8 (others)",
        f"{_told(shares)} times a linear one", all(min(each.values) >= LINEAR for each in shares.values()),
    )  # fmt: skip
    others = {f"over {name.upper()}": _pooled(over("ct", name)) for name in ("lp", "et", "qst")}
    yield _over_queries("figure 8a: throughput of scheduler CT", "CT has the highest throughput", others, below=False)
    lp = over("lp", "ct")
    alike = _pooled({query: lp[query] for query in ("q1", "q15")})
    yield _finding(
        "figure 8a: LP over CT, queries 1 and 15", "LP performs as well as CT", f"{median(alike.values):.2f}",
        min(alike.values) >= 1 - EQUAL,
    )  # fmt: skip
    yield _over_queries(
        "figure 8a: LP over CT, queries 2 to 4", "LP is below CT", {query: lp[query] for query in MANY}, below=True,
        why=f"we assume that a request costs {ASK:.0%} of an input's work",
    )  # fmt: skip
    for name in ("et", "qst"):
        item, printed = f"figure 8a: {name.upper()} over CT, all queries", "similar speed-up, less throughput"
        yield _over_queries(item, printed, over(name, "ct"), below=True)
    late = {name.upper(): _pooled(over(name, "lp", latency)) for name in ("ct", "et", "qst")}
    far = min(*late["ET"].values, *late["QST"].values)
    met = all(found.above for found in late.values()) and max(late["CT"].values) < far
    printed = "latency is lowest with LP, then CT; far higher with ET and QST"
    yield _finding("figure 8b: latency relative to LP", printed, _told(late), met)


def _asking(figure: Figure) -> Finding:
    """Find the price at which LP falls behind on most of the queries where it should, and on no other."""
    over = partial(_at_price, figure, "lp", "ct")

    def fits(price: float) -> tuple[int, int]:
        found = over(price)
        return sum(not found[query].below for query in ("q1", "q15")), sum(found[query].below for query in MANY)

    price = max(figure.seen("ask"), key=fits)
    kept, behind = fits(price)
    prices = ", ".join(f"{each:.0%}" for each in figure.seen("ask"))
    return Finding(
        "figure 8a: throughput of LP over CT, if requests to the scheduler cost more",
        "LP is below CT only on queries 2 to 4",
        f"queries 2 to 4: {_told({query: over(price)[query] for query in MANY})}",
        "trend only" if behind and kept == 2 else "not reproduced",
        f"a request costs {price:.0%} of an input's work; this fits best of {prices}", COMMAND,
    )  # fmt: skip


def _source(figure: Figure) -> Finding:
    queries = figure.seen("query")

    def share(limit: float) -> float:
        return exp(fmean(log(max(figure.median(lambda run: run.share, query, limit), 1e-3)) for query in queries))

    falls = ratios(figure, rate, [(query, INGRESS) for query in queries], [(query, inf) for query in queries])
    return _finding(
        "section 7.1: throughput of ET", "if input exceeds throughput, ET serves the earliest operator",
        f"{share(INGRESS):.2f} of the maximum if the source pauses while {INGRESS} inputs wait, else {share(inf):.2f}",
        falls.above,
    )  # fmt: skip


def _erratum(figure: Figure) -> Finding:
    few, many = sorted(figure.seen("inputs"))
    grown = {
        form: Ratios(tuple(
            (later.longest[1] - sooner.longest[1]) / (many - few)
            for sooner, later in zip(figure.rows[form, few], figure.rows[form, many], strict=True)
        )) for form in ("printed", "corrected")
    }  # fmt: skip
    return _finding(
        "equation 3 (CT): growth of a filter's queue per input", "CT divides by selectivity cs_i", _told(grown),
        min(grown["printed"].values) > 0.1 and max(grown["corrected"].values) < 0.01,
        "the index i is an erratum; we use cs_(i-1)",
    )  # fmt: skip


def _skew(figure: Figure) -> Finding:
    even = max(figure.seen("sigma"))

    def share(queue: str, sigma: Cell) -> Ratios:
        return ratios(figure, rate, [(0.0, sigma, queue)], [(0.0, even, queue)])

    alike = ratios(figure, rate, [(0.0, even, "hybrid")], [(0.0, even, "partitioned")])
    halved = [sigma for sigma in figure.seen("sigma") if max(share("partitioned", sigma).values) <= 0.5]
    at = max(halved, default=min(figure.seen("sigma")))
    kept = share("hybrid", at)
    return _finding(
        "figure 9: skewed keys over even keys", "partitioned drops heavily, hybrid performs consistently",
        f"partitioned {median(share('partitioned', at).values):.2f}, hybrid {median(kept.values):.2f}",
        bool(halved) and min(kept.values) >= 1 - SIMILAR and alike.within(SIMILAR),
    )  # fmt: skip


def _waiting(figure: Figure) -> Finding:
    times = {
        queue: [value * 1e3 / cost for cost in COSTS_US for value in figure.values(latency, cost, queue)]
        for queue in ("hybrid", "partitioned")
    }
    return _finding(
        "figure 10: latency over a tuple's cost", "hybrid is close to the cost, partitioned is much higher",
        "; ".join(f"{queue} {between(each, '.1f')} times" for queue, each in times.items()),
        max(times["hybrid"]) <= NEAR < min(times["partitioned"]),
    )  # fmt: skip


def _queues(figure: Figure) -> Iterator[Finding]:
    yield _hybrid(figure, "even", "our queues have no overhead")
    found = _by_query(figure, latency, "hybrid", "partitioned", MOST_WORKERS)
    lower = [query for query, each in found.items() if each.below]
    item = "figure 11: latency of hybrid over partitioned"
    printed, why = "lower on three of five queries, alike on the rest", f"lower on {len(lower)} of {len(found)} queries"
    yield _finding(item, printed, _told(found), len(lower) >= 3, why)


def _hybrid(figure: Figure, keys: str, why: str) -> Finding:
    found = _by_query(figure, rate, "hybrid", "partitioned", MOST_WORKERS)
    found.pop("q15")
    item, printed = f"figure 11: hybrid over partitioned, {keys} keys", "much higher except on query 15 (unclear)"
    return _over_queries(item, printed, found, below=False, why=why)


def _sending(figure: Figure) -> Iterator[Finding]:
    ways, most = ("non-blocking", "lock"), MOST_WORKERS
    up = {way: ratios(figure, rate, [(way, most)], [(way, 1)]) for way in ways}
    over = ratios(figure, rate, [(ways[0], most)], [(ways[1], most)])
    costs = ratios(figure, lambda run: run.worker_us, [(ways[1], most)], [(ways[0], most)])
    item = f"figure {figure.name}a: speed-up with {most} workers"
    yield _finding(item, "non-blocking scales better", _told(up), over.above)
    item = f"figure {figure.name}b: a tuple's cost with {most} workers"
    ours = f"lock over non-blocking {median(costs.values):.2f}"
    yield _finding(item, "rises more steeply with the lock", ours, costs.above)


def _sending_on_queries(figure: Figure) -> Finding:
    """Judge at the lowest price of an output, and report the result at the highest."""
    over = partial(_at_price, figure, "non-blocking", "lock")
    first, *_, most = figure.seen("price")
    why = f"an output costs {first:.0%} of an input's work; if it costs {most:.0%}, ratios are {_told(over(most))}"
    item, printed = "figure 14: non-blocking over lock", "consistently a better throughput"
    return _over_queries(item, printed, over(first), below=False, why=why)


def _on_threads(folder: Path) -> Iterator[Finding]:
    """Judge figures 9, 12 and 13 with threads that contend, with a table for each Python."""
    statements = {
        9.0: (
            "hybrid",
            "partitioned",
            "with skewed keys, the throughput of partitioned queues drops, and that of hybrid queues does not",
        ),
        12.0: ("non-blocking", "lock", "non-blocking scales better"),
        13.0: ("non-blocking", "lock", "non-blocking scales better"),
    }
    for path in sorted(folder.glob("figure-threads-*.csv")):
        figure = Figure.read(folder, path.stem.removeprefix("figure-"))
        most, python = (
            max(figure.seen("workers")),
            figure.name.replace("threads-", "Python ").replace("-free", " free-threaded"),
        )
        for number, (first, second, printed) in statements.items():
            over = ratios(figure, rate, [(number, first, most)], [(number, second, most)])
            yield _finding(
                f"figure {number:g} on threads, {python}", printed,
                f"{first} over {second} {over}", over.above,
                "" if over.above else "only two cores", THREADS,
            )  # fmt: skip


def _moved(figure: Figure) -> Finding:
    """Judge a comparison that is not in the paper, but decided the dispatcher's design."""
    at = min(figure.seen("sigma"), key=lambda sigma: abs(sigma - 0.4))
    over = {
        price: ratios(figure, rate, [(at, price, "hybrid")], [(at, price, "owned")]) for price in figure.seen("move_us")
    }
    return _finding(
        "section 4.3: hybrid over owned queues", "any worker takes the next key (hybrid)",
        ", ".join(f"{median(over[price].values):.2f} if moving a state takes {price:g} µs" for price in [*over][:3:2]),
        not any(found.below for found in over.values()), "states are in workers, so our dispatcher uses owned queues",
    )  # fmt: skip
