"""Draw the figures of Prasaad et al. and Leonarczyk as PNG.

Of Prasaad's the median of the runs is a line or bar, the lowest and highest are its error bar.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib.figure import Figure as Drawing

from lab.papers.leonarczyk.figure_data import Data
from lab.papers.prasaad.figures import MOST_WORKERS, Cell, Figure, Metric

matplotlib.use("Agg")


class Shape(NamedTuple):
    """Columns of a figure for its panels (empty: one panel), its horizontal axis and its lines."""

    panel: str
    across: str
    line: str
    metrics: Sequence[tuple[str, Metric]]
    logarithmic: bool = False
    only: tuple[str, Cell] | None = None
    """A column that is fixed."""


_RATE: tuple[str, Metric] = "inputs/s", lambda run: run.throughput_per_s
_LATENCY: tuple[str, Metric] = "latency, ms", lambda run: run.latency_ms
_TIME: tuple[str, Metric] = "worker time an input, µs", lambda run: run.worker_us
SHAPES = {
    "8": Shape("query", "workers", "scheduler", (_RATE, _LATENCY)),
    "8-ask": Shape("query", "ask", "scheduler", (_RATE,)),
    "8-source": Shape("query", "ingress", "", (_RATE, _LATENCY)),
    "9": Shape("", "sigma", "queue", (_RATE,), True, ("mean", 0.0)),
    "moved": Shape("sigma", "move_us", "queue", (_RATE, _LATENCY)),
    "10": Shape("", "cost_us", "queue", (_LATENCY,), True),
    "11": Shape("query", "workers", "queue", (_RATE, _LATENCY)),
    "12": Shape("", "workers", "sending", (_RATE, _TIME)),
    "13": Shape("", "workers", "sending", (_RATE, _TIME)),
    "14": Shape("query", "price", "sending", (_RATE,)),
}


def draw(figure: Figure, path: Path) -> None:
    """Write the picture of a figure that has a shape."""
    shape = SHAPES[figure.name]
    panels = figure.seen(shape.panel) if shape.panel else [""]
    drawing = Drawing(figsize=(3.2 * len(panels) + 1, 2.8 * len(shape.metrics) + 0.6), layout="constrained")
    axes: Any = drawing.subplots(len(shape.metrics), len(panels), squeeze=False)
    for row, (label, metric) in enumerate(shape.metrics):
        for axis, panel in zip(axes[row], panels, strict=True):
            for line in figure.seen(shape.line) if shape.line else [""]:
                _line(axis, line, list(_points(figure, shape, metric, panel, line)))
            axis.set_title(f"{panel}", fontsize=9)
            axis.set_xlabel(shape.across)
            if shape.logarithmic and row == 0:
                axis.set_xscale("log")
            if label.startswith("latency"):
                axis.set_yscale("log")
            else:
                axis.set_ylim(bottom=0)
        axes[row][0].set_ylabel(label)
    if shape.line:
        axes[0][-1].legend(fontsize=7, frameon=False)
    drawing.suptitle(f"Prasaad et al. 2017, figure {figure.name}, at most {MOST_WORKERS} workers: {figure.title}")
    drawing.savefig(path, format="png", dpi=100, metadata={"Software": None})


def _points(
    figure: Figure, shape: Shape, metric: Metric, panel: Cell, line: Cell
) -> Iterator[tuple[Cell, list[float]]]:
    for varied, runs in figure.rows.items():
        at = dict(zip(figure.varies, varied, strict=True))
        if shape.only is not None and at[shape.only[0]] != shape.only[1]:
            continue
        if at.get(shape.panel, "") == panel and at.get(shape.line, "") == line:
            yield at[shape.across], sorted(map(metric, runs))


def _line(axis: Any, label: Cell, points: Sequence[tuple[Cell, list[float]]]) -> None:
    across = [where for where, _ in points]
    if inf in across:
        across = [f"{where:g}" for where in across]
    middle = [values[len(values) // 2] for _, values in points]
    spread = [[at - values[0], values[-1] - at] for at, (_, values) in zip(middle, points, strict=True)]
    looks = {"marker": "o", "markersize": 3, "capsize": 2, "linewidth": 1}
    axis.errorbar(across, middle, yerr=list(zip(*spread, strict=True)), label=label, **looks)


# --- Leonarczyk 2024 --------------------------------------------------------------------------------------------------


def picture(title: str, data: Data) -> bytes:
    """Draw a panel for each column of values over the first column of numbers, with a line for each name before it.

    Where no column before the values has numbers, they are bars.
    """
    named = isinstance(data.lines[0][0], str)
    groups: dict[str, list[Any]] = {}
    for line in data.lines:
        groups.setdefault(str(line[0]) if named else "", []).append(line[1:] if named else line)
    bars = named and title.endswith("5.8")
    over, *values = data.head[1:] if named else data.head
    columns = [over, *values] if bars else values
    figure = Drawing(figsize=(9, 1.2 + 2 * len(columns)), layout="constrained")
    axes: Any = figure.subplots(len(columns), 1, sharex=True, squeeze=False)
    for place, (axis, label) in enumerate(zip(axes[:, 0], columns, strict=True)):
        for name, lines in groups.items():
            if bars:
                axis.bar(name, lines[0][place])
            else:
                x, y = [line[0] for line in lines], [line[place + 1] for line in lines]
                axis.plot(x, y, label=name, linewidth=0.8)
        axis.set_ylabel(label)
        if named and not bars:
            axis.legend(fontsize=7)
    if not bars:
        axes[-1, 0].set_xlabel(over)
    figure.suptitle(title)
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=110, metadata={"Software": None})
    return written.getvalue()
