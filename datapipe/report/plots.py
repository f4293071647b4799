"""The plots of a run over time. Each function returns a figure, or None if there are no data to draw."""

import html
import io
import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import matplotlib
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from cycler import cycler
from matplotlib.figure import Figure

from datapipe.report.data import Floats, RunData

HUES = 16
_OFFSET, _PRIME = 0x811C9DC5, 0x01000193


def hue_of(name: str) -> int:
    """Return the hue of a name: numbers cycle through ``HUES``, other names are hashed (FNV-1a over UTF-8)."""
    if name.isascii() and name.isdigit() and name[0] != "0" and len(name) <= 9:
        return (int(name) - 1) % HUES
    found = _OFFSET
    for byte in name.encode():
        found = (found ^ byte) * _PRIME % 2**32
    return (found ^ found >> 16) % HUES


COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6e6e6e", "#8c564b")
"""Okabe and Ito's colours, which colour-blind people can distinguish, some darkened for lines on white."""
BANDS = (
    "#3451c7", "#0b7285", "#b3521b", "#2b7a3d", "#8a3fb0", "#a61e4d",
    "#7a6000", "#4a5568", "#5f3dc4", "#087f5b", "#c2255c", "#8a5a2b",
    "#5c7000", "#8c2f0b", "#1864ab", "#6b2c5e",
)  # fmt: skip
"""Colours of compositions in reports, as on the page's light theme."""
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
.scroll { overflow-x: auto } img { max-width: 100% } :root { color-scheme: light dark }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; gap: 0 } dd { margin-bottom: 0.4rem } }
@media (prefers-color-scheme: dark) {
  body { color: #e4e8ee; background: #14171c } dt, figcaption, .note { color: #9aa4b1 } th, td { border-color: #303741 }
  svg { filter: invert(1) hue-rotate(180deg) }
}
"""


def band_colour(composition: str) -> str:
    return BANDS[hue_of(composition)]


OFFERED, DELIVERED, MEAN, P95 = BANDS[2], BANDS[0], BANDS[0], BANDS[2]
"""Colours of lines, as on the page."""
STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
WIDTH_IN, LEFT_IN, RIGHT_IN, BOTTOM_IN, TOP_IN = 10.0, 0.9, 1.9, 0.45, 0.12
"""Width of a figure and its margins, in inches; legends are in the right margin."""


def figure(height: float = 3.2, rows: int = 1) -> tuple[Figure, Any]:
    """Return a figure of the page's width with its axes (an array of axes for several rows)."""
    with matplotlib.rc_context(RULES):
        made = Figure(figsize=(10, height), layout="constrained")
        return made, made.subplots(rows, sharex=rows > 1)


def _course(run: RunData, height: float = 2.8) -> tuple[Figure, Any]:
    """Return a figure over time. All such figures have the same time axis, labelled with the time of day in UTC."""
    with matplotlib.rc_context(RULES):
        made = Figure(figsize=(WIDTH_IN, height))
        made.subplots_adjust(LEFT_IN / WIDTH_IN, BOTTOM_IN / height, 1 - RIGHT_IN / WIDTH_IN, 1 - TOP_IN / height)
        axes = made.subplots()
        clock_axis(axes, run.began, float(run.seconds(run.snapshots, "at")[-1]))
        return made, axes


def clock_axis(axes: Any, began: datetime, length_s: float) -> None:
    """Set ticks at round times of day."""
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
    """Put the legend beside the plot, where it hides no data."""
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.02), borderaxespad=0, fontsize=9, frameon=False, **more)


def svg(made: Figure) -> str:
    """Return the figure as an SVG element of a page."""
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
    """Return an HTML table, with numbers right-aligned, None as a dash, and cells escaped."""
    top = "".join(f"<th>{html.escape(head)}</th>" for head in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(value: Any) -> str:
    if isinstance(value, int | float):
        return f'<td class="number">{value:,.4g}</td>'
    return f"<td>{'–' if value is None else html.escape(str(value))}</td>"


PHONE = '<meta name="viewport" content="width=device-width, initial-scale=1">'


def page(title: str, sections: Sequence[str]) -> str:
    """Return a self-contained HTML page."""
    name, body = html.escape(title), "\n".join(sections)
    head = f'<meta charset="utf-8">{PHONE}<link rel="icon" href="data:,"><title>{name}</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body><h1>{name}</h1>\n{body}</body></html>\n'


POINTS = 900
"""Maximum number of points of a line; the page cannot show more."""


def rates(run: RunData) -> Figure | None:
    """Plot the input rate and the throughput."""
    made, axes = _course(run)
    drawn = _line(axes, run, "input_rate_per_s", "input rate", color=OFFERED, linestyle="--")
    drawn |= _line(axes, run, "throughput_per_s", "throughput", color=DELIVERED)
    return _finished(made, axes, "items/s", drawn)


def latency(run: RunData) -> Figure | None:
    """Plot the latency with the SLO and its bound."""
    made, axes = _course(run)
    drawn = _line(axes, run, "latency_mean_ms", "mean", color=MEAN)
    drawn |= _line(axes, run, "latency_p95_ms", "95th percentile", color=P95)
    of_latency = pc.equal(run.snapshots.column("slo_metric"), "latency")
    ours = run.snapshots.filter(pc.fill_null(of_latency, False))
    if ours.num_rows:
        at_s, target = run.seconds(ours, "at"), _numbers(ours, "slo_target")
        axes.plot(at_s, target, color="#444", linewidth=1, linestyle="--", label="SLO target")
        axes.fill_between(at_s, target, _numbers(ours, "slo_bound"), color="#999", alpha=0.25, label="to its bound")
    return _finished(made, axes, "ms", drawn)


def compositions(run: RunData) -> Figure | None:
    """Plot the active composition as coloured bands, and switches as lines."""
    made, axes = _course(run, 0.95)
    names = dict.fromkeys(run.snapshots.column("composition").to_pylist())
    colours = {name: band_colour(name) for name in names}
    for name, from_s, until_s in bands(run):
        axes.axvspan(from_s, until_s, color=colours[name], alpha=0.45, linewidth=0, gid="data-band")
    for switch in run.switches:
        axes.axvline(switch["at_s"], color="#000", linewidth=1, linestyle=":" if switch["error"] else "-")
    handles = [axes.plot([], [], color=colour, linewidth=6, label=name)[0] for name, colour in colours.items()]
    axes.set_yticks([])
    legend(axes, handles=handles, ncols=1 + len(handles) // 5)
    axes.grid(visible=False)
    return made if colours else None


def service_times(run: RunData) -> Figure | None:
    """Plot the service time of every stage, thick where the stage is the bottleneck."""
    made, axes = _course(run)
    flat = _stages(run)
    for number, name in enumerate(dict.fromkeys(flat["stage"])):
        rows = flat["stage"] == name
        at_s, service_ms = flat["at"][rows], flat["service_ms"][rows]
        colour = BANDS[number % len(BANDS)]
        axes.plot(*_thinned(at_s, service_ms), color=colour, label=name, gid="data-stage")
        tagged = np.where(flat["bottleneck"][rows], service_ms, np.nan)
        axes.plot(*_thinned(at_s, tagged), color=colour, linewidth=4, alpha=0.5)
    return _finished(made, axes, "ms an item (thick: bottleneck)", bool(len(flat["stage"])))


def slo_hits(run: RunData) -> Figure | None:
    """Plot the fraction of time in which the SLO was met: per slice of the run, and cumulative."""
    made, axes = _course(run, 2.0)
    status = np.asarray(run.snapshots.column("slo_status").to_pylist(), dtype=object)
    known = np.isin(status, ("met", "violated", "infeasible"))
    met = np.where(status == "met", 1.0, 0.0)[known]
    at_s = run.seconds(run.snapshots, "at")[known]
    if not met.size:
        return None
    slices = min(POINTS, max(4, round((at_s[-1] - at_s[0]) / 10)))
    label = f"in {(at_s[-1] - at_s[0]) / slices:.0f} s"
    axes.plot(*_thinned(at_s, met, slices), drawstyle="steps-mid", label=label, gid="data")
    axes.plot(*_thinned(at_s, np.cumsum(met) / np.arange(1, met.size + 1)), label="so far", gid="data")
    axes.set_ylim(-0.03, 1.03)
    return _finished(made, axes, "share", True)


def boxes(run: RunData) -> Figure | None:
    """Plot the latency of items by composition: median, quartiles, 5 and 95 %."""
    delivered = run.items.filter(pc.equal(run.items.column("outcome"), "delivered"))
    if not delivered.num_rows:
        return None
    instants = [delivered.column(name).cast(pa.int64()).to_numpy() for name in ("delivered", "arrived")]
    latency_ms = (instants[0] - instants[1]) / 1e3
    names = delivered.column("composition").to_numpy(zero_copy_only=False)
    made, axes = figure(3.6)
    stats = [_box(name, latency_ms[names == name]) for name in sorted(set(names))]
    axes.bxp(stats, showfliers=False, boxprops={"gid": "data-box"}, medianprops={"color": COLOURS[1]})
    axes.set_xlabel("composition")
    axes.set_ylabel("latency, ms")
    return made


def predictions(run: RunData) -> Figure | None:
    """Plot the predictions for the chosen compositions, and the measurements once the window was full."""
    known = outcomes(run)
    if not known:
        return None
    made, (top, bottom) = figure(4.4, 2)
    places = np.arange(len(known))
    for axes, name, unit in ((top, "throughput_per_s", "items/s"), (bottom, "latency_ms", "ms")):
        for off, kind, label in ((-0.2, "predicted", "predicted (at most)"), (0.2, "measured", "measured")):
            heights = [chosen[f"{kind}_{name}"] for _, chosen in known]  # what is unbounded or unknown has no bar
            axes.bar(places + off, np.array(heights, dtype=float), 0.4, label=label, gid="data")
        axes.set_ylabel(unit)
    bottom.set_xticks(places, [label for label, _ in known], rotation=30, ha="right")
    legend(top)
    return made


def calibration(run: RunData) -> Figure | None:
    """Plot the predicted fractions of items in time, their lower limits at 90 % confidence, and the measured ones."""
    known = [(label, chosen) for label, chosen in outcomes(run) if chosen.get("measured_in_time") is not None]
    if not known:
        return None
    made, axes = figure()
    kinds = "predicted_in_time", "predicted_in_time_at_least", "measured_in_time"
    predicted, least, measured = (np.array([chosen[kind] for _, chosen in known], dtype=float) for kind in kinds)
    places, told = np.arange(len(known)), ~np.isnan(least)
    above = f"90 % should be above: {(measured >= least)[told].sum()} of {told.sum()}"
    for values, marker, label in ((predicted, "_", "predicted"), (least, "^", above), (measured, "x", "measured")):
        axes.plot(places, values, marker, label=label, gid="data")
    axes.set_xticks(places, [label for label, _ in known], rotation=30, ha="right")
    axes.set_ylabel("share in time")
    legend(axes)
    return made


def drains(run: RunData) -> Figure | None:
    """Plot the drain time of every switch: expected, bound and actual."""
    known = [each for each in run.switches if each["drain_actual_ms"] is not None]
    if not known:
        return None
    made, axes = figure()
    places = range(len(known))
    for key, label, marker in (
        ("drain_estimate_ms", "bound", "v"), ("drain_mean_ms", "expected", "o"), ("drain_actual_ms", "actual", "x"),
    ):  # fmt: skip
        axes.plot(places, [np.nan if s[key] is None else s[key] for s in known], marker, label=label, gid="data")
    axes.set_xticks(list(places), [f"{s['from']} → {s['to']}" for s in known], rotation=30, ha="right")
    axes.set_ylabel("ms")
    legend(axes)
    return made


# --- what they are drawn from ----------------------------------------------------------------------------------------


def bands(run: RunData) -> Iterator[tuple[str, float, float]]:
    """Yield the name, begin and end of each period with one composition."""
    names, at_s = run.snapshots.column("composition").to_pylist(), run.seconds(run.snapshots, "at")
    begin = 0
    for place in range(1, len(names) + 1):
        if place == len(names) or names[place] != names[begin]:
            yield names[begin], float(at_s[begin]), float(at_s[min(place, len(names) - 1)])
            begin = place


def outcomes(run: RunData) -> Sequence[tuple[str, dict[str, Any]]]:
    """Return the decisions with measured results, each with its chosen candidate."""
    known = []
    for decision in run.decisions:
        chosen: dict[str, Any] = next((each for each in decision["candidates"] if each["name"] == decision["to"]), {})
        if chosen.get("measured_throughput_per_s") is not None and chosen["predicted_throughput_per_s"] is not None:
            known.append((f"{decision['id']}: {decision['from']} → {decision['to']}", chosen))
    return known


def _numbers(table: Any, column: str) -> Floats:
    return np.asarray(table.column(column).to_numpy(zero_copy_only=False), dtype=np.float64)


def _stages(run: RunData) -> dict[str, Any]:
    lists = run.snapshots.column("stages").combine_chunks()
    parents, flat = pc.list_parent_indices(lists).to_numpy(), lists.flatten()
    columns = {name: flat.field(name).to_numpy(zero_copy_only=False) for name in ("stage", "service_ms", "bottleneck")}
    return columns | {"at": run.seconds(run.snapshots, "at")[parents]}


def _line(axes: Any, run: RunData, column: str, label: str, **look: str) -> bool:
    at_s, values = _thinned(run.seconds(run.snapshots, "at"), _numbers(run.snapshots, column))
    axes.plot(at_s, values, label=label, gid="data", **look)
    return not bool(np.isnan(values).all())


def _thinned(at_s: Floats, values: Floats, points: int = POINTS) -> tuple[Floats, Floats]:
    """Return the means of equal time slices; slices without a value are gaps."""
    if at_s.size <= points and points == POINTS:
        return at_s, values
    edges = np.linspace(at_s[0], at_s[-1], points + 1)
    slot, known = np.clip(np.searchsorted(edges, at_s, "right") - 1, 0, points - 1), ~np.isnan(values)
    count = np.bincount(slot[known], minlength=points)
    total = np.bincount(slot[known], weights=values[known], minlength=points)
    means = np.divide(total, count, out=np.full(points, np.nan), where=count > 0)
    return (edges[:-1] + edges[1:]) / 2, means


def _box(name: str, values: Floats) -> dict[str, Any]:
    low, first, middle, third, high = np.percentile(values, (5, 25, 50, 75, 95))
    return {"label": name, "whislo": low, "q1": first, "med": middle, "q3": third, "whishi": high, "fliers": []}


def _finished(made: Figure, axes: Any, unit: str, drawn: bool) -> Figure | None:
    if not drawn:
        return None
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    legend(axes)
    return made
