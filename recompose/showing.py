"""A run as a notebook shows it."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from service.bodies.status import Status
from service.cli.render import number, slo_text

Row = tuple[str, str]


def html(status: Status) -> str:
    """Two tables: the run, and its stages."""
    caption = f"{status.app} · {status.state}"
    stages = [
        (each.name + (" (bottleneck)" if each.bottleneck else ""), number(each.service_time_ms, " ms"))
        for each in status.stages
    ]
    return _table(caption, _figures(status)) + _table("stages, service time", stages)


def _figures(status: Status) -> Iterable[Row]:
    composition, latency, items = status.composition, status.latency_ms, status.items
    yield "composition", f"{composition.notation}, {composition.workers} workers" if composition else "–"
    yield "in, out", f"{number(status.input_rate_per_s)}/s, {number(status.throughput_per_s)}/s"
    yield "latency", f"mean {number(latency.mean, ' ms')}, p95 {number(latency.p95, ' ms')}"
    yield "SLO", slo_text(status).plain
    yield "items", f"{items.delivered:,} out of {items.accepted:,}, {items.failed:,} failed; {status.switches} switches"
    yield from ((what, text) for what, text in (("held up", status.held_up), ("failure", status.failure)) if text)


def _table(caption: str, rows: Iterable[Row]) -> str:
    body = "".join(f"<tr><th scope='row'>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows)
    return f"<table><caption>{escape(caption)}</caption><tbody>{body}</tbody></table>"
