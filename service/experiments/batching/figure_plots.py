"""Figures 5.1 to 5.9 as PNG: a panel for every value, a line for every setup."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from service.experiments.batching.figure_data import Data

matplotlib.use("Agg")
PANEL_HEIGHT = 2.2
MANY = 200
SAYS: Mapping[str, str] = {
    "5.1": "latency and throughput by the size of bundles",
    "5.2": "bundles of one size over the tuples",
    "5.3": "best itemized hit at 5 % of every step",
    "5.4": "hits of the best pmbaf as the run goes on",
    "5.5": "batched hit of faf by pattern and sample",
    "5.6": "a step that is too small",
    "5.7": "a step that is large, and ours",
    "5.8": "the best of every controller at 5 %",
    "5.9": "what the terms of pid add to the size",
}


def figure(number: str, data: Data) -> bytes:
    """Lines over ``data.over``; one for each value of ``data.each``, where it has one."""
    shown = [name for name in data.head if name not in (data.over, data.each)]
    drawn = Figure(figsize=(9, PANEL_HEIGHT * len(shown) + 0.8), layout="constrained")
    axes: Any = drawn.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    style = _style(data)
    for axis, name in zip(axes, shown, strict=True):
        for label, lines in _lines(data):
            xs, ys = (_column(data, lines, each) for each in (data.over, name))
            axis.plot(xs, ys, style, markersize=2 if style == "." else 4, label=label)
        axis.set_ylabel(name)
    if data.each:
        axes[0].legend(fontsize=8, ncols=3, frameon=False)
    axes[-1].set_xlabel(data.over)
    drawn.suptitle(f"Figure {number}: {SAYS[number]}")
    written = io.BytesIO()
    drawn.savefig(written, format="png", dpi=110, metadata={"Software": None})
    return written.getvalue()


def _style(data: Data) -> str:
    """Points where there are many; joined where there are few, unless what they are over has no order."""
    if len(data.lines) > MANY:
        return "."
    return "o" if isinstance(_column(data, data.lines, data.over)[0], str) else "o-"


def _lines(data: Data) -> Iterator[tuple[str, Sequence[Sequence[Any]]]]:
    """By what they are of; all of them where that is nothing."""
    if data.each is None:
        yield "", data.lines
        return
    labels = _column(data, data.lines, data.each)
    for label in dict.fromkeys(labels):
        yield str(label), [line for line, of in zip(data.lines, labels, strict=True) if of == label]


def _column(data: Data, lines: Sequence[Sequence[Any]], name: str) -> list[Any]:
    place = list(data.head).index(name)
    return [line[place] for line in lines]
