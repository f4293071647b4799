"""Pictures of the figures' data, as PNG."""

from __future__ import annotations

import io
from typing import Any

from matplotlib.figure import Figure

from lab.papers.leonarczyk.figure_data import Data


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
    figure = Figure(figsize=(9, 1.2 + 2 * len(columns)), layout="constrained")
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
