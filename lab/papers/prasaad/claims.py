"""Report all figures as one Markdown text: claims and their verdicts, then a table per figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp, log
from statistics import fmean

from lab.papers.prasaad.figures import (
    ASK,
    CAPACITY,
    COSTS_US,
    CROWDING,
    MOST_WORKERS,
    PUBLISHED,
    RING,
    SEND,
    SLICE,
    WINDOW,
    Figure,
)
from lab.papers.prasaad.runs import Run
from lab.papers.report import Claim, as_table, document, markdown

AS_GOOD = 0.98
"""Throughputs that differ by less are called equal."""
OF_BOUND = 0.95


def all_of(figures: Mapping[str, Figure]) -> Iterator[Claim]:
    """Judge all claims in the order of the figures. Raises: KeyError when a figure is missing."""
    yield from of_schedulers(figures["8"])
    yield of_errata(figures["ct"])
    yield of_skew(figures["9"])
    yield of_waiting(figures["10"])
    yield of_queues(figures["11"])
    for name in ("12", "13"):
        yield of_sending(figures[name])
    yield of_sending_on_queries(figures["14"])


def of_schedulers(figure: Figure) -> Iterator[Claim]:
    """Section 7.1: CT best in throughput, LP in latency, ET and QST behind; and ours."""
    queries = _values(figure, 0)
    rates = {name: _typical([_best(figure, query, name).share for query in queries]) for name in (*PUBLISHED, "kanban")}
    late = {name: _typical([_best(figure, query, name).latency_ms for query in queries]) for name in rates}
    told_rates = ", ".join(f"{name} {rates[name]:.2f}" for name in rates)
    told_late = ", ".join(f"{name} {late[name]:.2g}" for name in late)
    best = max(rates[name] for name in PUBLISHED)
    yield Claim(
        "CT has the best throughput, or as good (share of the bound)", told_rates, rates["ct"] >= AS_GOOD * best
    )
    yield Claim("LP has the lowest latency (ms)", told_late, late["lp"] <= min(late[name] for name in PUBLISHED))
    behind = all(rates[name] < rates["ct"] and late[name] > late["lp"] for name in ("et", "qst"))
    yield Claim("ET and QST are behind both, in both", f"{told_rates}; {told_late}", behind)
    as_good = rates["kanban"] >= AS_GOOD * best and late["kanban"] <= late["lp"] / AS_GOOD
    yield Claim("kanban: throughput of the best, latency of LP", f"{told_rates}; {told_late}", as_good)


def of_errata(figure: Figure) -> Claim:
    few, many = sorted({int(count) for (_, count), _ in figure.rows})
    grown = {
        form: figure.of(form, many).longest[1] / figure.of(form, few).longest[1] for form in ("printed", "corrected")
    }
    rate = {form: figure.of(form, many).share for form in grown}
    queue = {form: f"{figure.of(form, few).longest[1]:,} and {figure.of(form, many).longest[1]:,}" for form in grown}
    told = "; ".join(f"{form}: worklist 2 at most {queue[form]}, {rate[form]:.2f} of the bound" for form in grown)
    met = grown["printed"] > 1.8 and grown["corrected"] < 1.2 and rate["corrected"] > rate["printed"]
    return Claim("CT as printed lets worklist 2 grow with the stream, corrected it does not", told, met)


def of_skew(figure: Figure) -> Claim:
    """At the widest σ at which partitioned queues are at half of what evenly spread keys give, or less."""
    sigmas = _values(figure, 1)
    whole = figure.of(0.0, max(sigmas), "hybrid").throughput_per_s
    halved = [sigma for sigma in sigmas if figure.of(0.0, sigma, "partitioned").throughput_per_s <= whole / 2]
    at = max(halved, default=min(sigmas))
    share = figure.of(0.0, at, "hybrid").share
    left = figure.of(0.0, at, "partitioned").throughput_per_s / whole
    told = f"σ = {at}: partitioned {left:.2f} of even keys, hybrid {share:.2f} of the bound"
    return Claim(
        f"hybrid at least {OF_BOUND} of the bound where partitioned halves", told, bool(halved) and share >= OF_BOUND
    )


def of_waiting(figure: Figure) -> Claim:
    times = {name: [figure.of(us, name).latency_ms * 1e3 / us for us in COSTS_US] for name in ("hybrid", "partitioned")}
    told = "; ".join(f"{name} {min(found):.1f} to {max(found):.1f} times the cost" for name, found in times.items())
    met = max(times["hybrid"]) < 2 and min(times["partitioned"]) > 4 * max(times["hybrid"])
    return Claim("latency of hybrid is near the cost of a tuple, of partitioned far above", told, met)


def of_queues(figure: Figure) -> Claim:
    ratios = {
        query: figure.of(query, "hybrid", MOST_WORKERS).share
        / max(figure.of(query, "partitioned", MOST_WORKERS).share, 1e-9)
        for query in _values(figure, 0)
    }
    met = all(ratio >= AS_GOOD for ratio in ratios.values())
    return Claim("hybrid at least partitioned in throughput, each query, 16 workers", _told(ratios), met)


def of_sending(figure: Figure) -> Claim:
    most = max(int(workers) for (_, workers), _ in figure.rows)
    ups = {way: _speedup(figure, way, most) for way in ("non-blocking", "lock")}
    return Claim(
        f"figure {figure.name}: non-blocking has the better speed-up", _told(ups), ups["non-blocking"] > ups["lock"]
    )


def of_sending_on_queries(figure: Figure) -> Claim:
    ratios = {
        query: figure.of(query, "non-blocking").share / figure.of(query, "lock").share for query in _values(figure, 0)
    }
    met = all(ratio >= AS_GOOD for ratio in ratios.values())
    return Claim("figure 14: non-blocking gives as much at least on each query", _told(ratios), met)


def _values(figure: Figure, column: int) -> list[str | float]:
    return list(dict.fromkeys(varied[column] for varied, _ in figure.rows))


def _best(figure: Figure, query: str | float, scheduler: str) -> Run:
    return figure.of(query, scheduler, MOST_WORKERS)


def _speedup(figure: Figure, way: str, most: int) -> float:
    return figure.of(way, most).throughput_per_s / figure.of(way, 1).throughput_per_s


def _typical(values: Sequence[float]) -> float:
    """Geometric mean: one query is not to count for all."""
    return exp(fmean(log(max(value, 1e-3)) for value in values))


def _told(values: Mapping[str, float] | Mapping[str | float, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in values.items())


# --- the report -------------------------------------------------------------------------------------------------------


def report(figures: Sequence[Figure], facts: Mapping[str, str]) -> str:
    parts = [("What it shows", as_table(all_of({figure.name: figure for figure in figures})))]
    parts += [(f"Figure {figure.name}: {figure.title}", _table(figure)) for figure in figures]
    return document(parts, {**facts, "assumed": _assumed()})


def _assumed() -> str:
    return (
        f"a question costs {ASK:.1%} and an output {SEND:.1%} of what an input costs in the pipeline, a further worker "
        f"at an operator {CROWDING:.0%} of its time; slice {SLICE:g} inputs, window {WINDOW:g}, C "
        f"{CAPACITY} tuples, ring {RING:,}; single operators (9, 10, 12, 13) without these"
    )


def _table(figure: Figure) -> str:
    head = [*figure.varies, "inputs/s", "of the bound", "latency, ms", "worker time an input, µs", "longest worklists"]
    lines = []
    for varied, run in figure.rows:
        figures = (f"{run.throughput_per_s:,.0f}", f"{run.share:.2f}", f"{run.latency_ms:.3g}", f"{run.worker_us:.3g}")
        lines.append([*map(str, varied), *figures, ", ".join(f"{longest:,}" for longest in run.longest)])
    return markdown(head, lines)
