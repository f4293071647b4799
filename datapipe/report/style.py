"""The look of plots, and how they get into a page: for reports of runs and of experiments alike."""

from __future__ import annotations

import html
import io
import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import matplotlib
from cycler import cycler
from matplotlib.figure import Figure

HUES = 16
_OFFSET, _PRIME = 0x811C9DC5, 0x01000193


def hue_of(name: str) -> int:
    """One of ``HUES``: numbers count through them, other names are hashed (FNV-1a over UTF-8)."""
    if name.isascii() and name.isdigit() and name[0] != "0" and len(name) <= 9:
        return (int(name) - 1) % HUES
    found = _OFFSET
    for byte in name.encode():
        found = (found ^ byte) * _PRIME % 2**32
    return (found ^ found >> 16) % HUES


COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6e6e6e", "#8c564b")
"""Okabe and Ito's, which people with colour-blindness can tell apart, darker where they are lines on white."""
BANDS = (
    "#3451c7", "#0b7285", "#b3521b", "#2b7a3d", "#8a3fb0", "#a61e4d",
    "#7a6000", "#4a5568", "#5f3dc4", "#087f5b", "#c2255c", "#8a5a2b",
    "#5c7000", "#8c2f0b", "#1864ab", "#6b2c5e",
)  # fmt: skip
"""Of compositions, by ``datapipe.report.style``: those of the page, where it is light."""
RULES: dict[str, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "legend.frameon": False,
    "axes.prop_cycle": cycler(color=list(COLOURS)),
}
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1b1b; background: #fff }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h1, h2 { line-height: 1.2 } h2 { margin-top: 2.5rem } figure { margin: 0; overflow-x: auto }
svg { width: 100%; min-width: 40rem; height: auto; display: block }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.3rem 1.2rem } dt { color: #555 } dd { margin: 0 }
figcaption, .note { color: #555 } table { border-collapse: collapse; width: 100%; font-size: 0.9rem }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.6rem; border-bottom: 1px solid #ddd }
td.number { text-align: right; font-variant-numeric: tabular-nums } summary { cursor: pointer; padding: 0.2rem 0 }
.scroll { overflow-x: auto } :root { color-scheme: light dark }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; gap: 0 } dd { margin-bottom: 0.4rem } }
@media (prefers-color-scheme: dark) {
  body { color: #e4e8ee; background: #14171c } dt, figcaption, .note { color: #9aa4b1 } th, td { border-color: #303741 }
  svg { filter: invert(1) hue-rotate(180deg) }
}
"""


def band_colour(composition: str) -> str:
    return BANDS[hue_of(composition)]


OFFERED, DELIVERED, MEAN, P95 = BANDS[2], BANDS[0], BANDS[0], BANDS[2]
"""Lines in the colours that the page gives them."""
STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
WIDTH_IN, LEFT_IN, RIGHT_IN, BOTTOM_IN, TOP_IN = 10.0, 0.9, 1.9, 0.45, 0.12
"""Inches of a figure, and what its axes leave free; legends stand on the right."""


def figure(height: float = 3.2, rows: int = 1) -> tuple[Figure, Any]:
    """A figure of the page's width with its axes (an array of them for several rows)."""
    with matplotlib.rc_context(RULES):
        made = Figure(figsize=(10, height), layout="constrained")
        return made, made.subplots(rows, sharex=rows > 1)


def course(began: datetime, length_s: float, height: float = 2.8) -> tuple[Figure, Any]:
    """A figure over time: an instant is at the same place in each of them, and the axis tells the clock, in UTC."""
    with matplotlib.rc_context(RULES):
        made = Figure(figsize=(WIDTH_IN, height))
        made.subplots_adjust(LEFT_IN / WIDTH_IN, BOTTOM_IN / height, 1 - RIGHT_IN / WIDTH_IN, 1 - TOP_IN / height)
        axes = made.subplots()
        clock_axis(axes, began, length_s)
        return made, axes


def clock_axis(axes: Any, began: datetime, length_s: float) -> None:
    """Ticks at round times of day."""
    first_s = began.timestamp()
    step_s = next((step for step in STEPS_S if length_s / step <= 8), STEPS_S[-1])
    ticks_s = [
        step_s * number - first_s
        for number in range(math.ceil(first_s / step_s), math.floor((first_s + length_s) / step_s) + 1)
    ]
    form = "%H:%M:%S" if step_s < 60 else "%H:%M"
    axes.set_xlim(0, max(length_s, 1.0))
    axes.set_xticks(ticks_s, [f"{began + timedelta(seconds=tick_s):{form}}" for tick_s in ticks_s])


def legend(axes: Any, **more: Any) -> None:
    """Beside the plot, where it hides nothing."""
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.02), borderaxespad=0, fontsize=9, frameon=False, **more)


def svg(made: Figure) -> str:
    """As an element of a page."""
    file = io.StringIO()
    with matplotlib.rc_context(RULES):
        made.savefig(file, format="svg", transparent=True)  # so that a dark page turns it around
    text = file.getvalue()
    return text[text.index("<svg") :]


def png(made: Figure) -> bytes:
    file = io.BytesIO()
    with matplotlib.rc_context(RULES):
        made.savefig(file, format="png", dpi=144)
    return file.getvalue()


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Numbers right, text left, nothing as a dash; cells are escaped."""
    top = "".join(f"<th>{html.escape(head)}</th>" for head in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(value: Any) -> str:
    if isinstance(value, int | float):
        return f'<td class="number">{value:,.4g}</td>'
    return f"<td>{'–' if value is None else html.escape(str(value))}</td>"


PHONE = '<meta name="viewport" content="width=device-width, initial-scale=1">'


def page(title: str, sections: Sequence[str]) -> str:
    """One file that needs nothing else."""
    name, body = html.escape(title), "\n".join(sections)
    head = f'<meta charset="utf-8">{PHONE}<link rel="icon" href="data:,"><title>{name}</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body><h1>{name}</h1>\n{body}</body></html>\n'
