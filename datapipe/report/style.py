"""The look of plots, and how they get into a page: for reports of runs and of experiments alike."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from typing import Any

import matplotlib
from cycler import cycler
from matplotlib.figure import Figure

from compositions.hue import hue_of

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6e6e6e", "#8c564b")
"""Okabe and Ito's, which people with colour-blindness can tell apart, darker where they are lines on white."""
BANDS = (
    "#3451c7", "#0b7285", "#b3521b", "#2b7a3d", "#8a3fb0", "#a61e4d",
    "#7a6000", "#4a5568", "#5f3dc4", "#087f5b", "#c2255c", "#8a5a2b",
    "#5c7000", "#8c2f0b", "#1864ab", "#6b2c5e",
)  # fmt: skip
"""Of compositions, by ``compositions.hue``: those of the page, where it is light."""
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
h1, h2 { line-height: 1.2 } h2 { margin-top: 2.5rem } figure { margin: 0 } svg { width: 100%; height: auto }
figcaption, .note { color: #555 } table { border-collapse: collapse; width: 100%; font-size: 0.9rem }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.6rem; border-bottom: 1px solid #ddd }
td.number { text-align: right; font-variant-numeric: tabular-nums } summary { cursor: pointer }
"""


def band_colour(composition: str) -> str:
    return BANDS[hue_of(composition)]


def figure(height: float = 3.2, rows: int = 1) -> tuple[Figure, Any]:
    """A figure of the page's width with its axes (an array of them for several rows)."""
    with matplotlib.rc_context(RULES):
        made = Figure(figsize=(10, height), layout="constrained")
        return made, made.subplots(rows, sharex=rows > 1)


def svg(made: Figure) -> str:
    """As an element of a page."""
    file = io.StringIO()
    with matplotlib.rc_context(RULES):
        made.savefig(file, format="svg")
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
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if isinstance(value, int | float):
        return f'<td class="number">{value:,.4g}</td>'
    return f"<td>{'–' if value is None else html.escape(str(value))}</td>"


def page(title: str, sections: Sequence[str]) -> str:
    """One file that needs nothing else."""
    name, body = html.escape(title), "\n".join(sections)
    head = f'<meta charset="utf-8"><link rel="icon" href="data:,"><title>{name}</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body><h1>{name}</h1>\n{body}</body></html>\n'
