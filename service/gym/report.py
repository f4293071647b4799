"""What the gym found, as files: one HTML page, the table as Markdown, every run as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from service.gym.contest import Round
from service.gym.standings import HEADS, Row, by_group, standings

STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#1c2430}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .8rem;text-align:right;
border-bottom:1px solid #d5dae1}td:first-child,th:first-child{text-align:left}.facts{color:#4a5563;font-size:.9rem}"""
EXPLAINED = (
    "In time: share of the items that were out within the bound. Goodput: items in time per worker-second, against a "
    "clairvoyant with all items in time and the fewest workers at each moment. Cost: worker-seconds, against the "
    "composition provisioned for the peak. Recovery: mean length of the stretches of seconds in which fewer than 95 % "
    "were in time. ±: half of Student's 95 % interval over the seeds."
)
COLUMNS = (
    *("load", "group", "seed", "policy", "items", "in_time", "worker_s", "changes", "resizes", "recovery_s"),
    *("least_worker_s", "peak_worker_s", "goodput_against_least"),
)


def write(folder: Path, rounds: Sequence[Round], facts: Mapping[str, str]) -> Path:
    """Writes ``report.html``, ``report.md`` and ``runs.csv``; the page is returned. Raises: OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "runs.csv").write_text(as_csv(rounds), encoding="utf-8")
    (folder / "report.md").write_text(as_markdown(rounds, facts), encoding="utf-8")
    page = folder / "report.html"
    page.write_text(as_html(rounds, facts), encoding="utf-8")
    return page


def as_csv(rounds: Sequence[Round]) -> str:
    """Every run."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    rows.writerows(_values(each) for each in rounds)
    return text.getvalue()


def as_markdown(rounds: Sequence[Round], facts: Mapping[str, str]) -> str:
    parts = [f"## {title}\n\n{_markdown(rows)}" for title, rows in _tables(rounds).items()]
    told = "\n".join(f"- {name}: {value}" for name, value in facts.items())
    return "\n\n".join(["# The gym", EXPLAINED, told, *parts]) + "\n"


def as_html(rounds: Sequence[Round], facts: Mapping[str, str]) -> str:
    """One page that needs nothing from outside."""
    head = f'<meta charset="utf-8"><title>Recompose: the gym</title><style>{STYLE}</style>'
    told = ", ".join(f"{name} {value}" for name, value in facts.items())
    tables = "".join(f"<h2>{escape(title)}</h2>{_html(rows)}" for title, rows in _tables(rounds).items())
    body = f'<h1>The gym</h1><p>{escape(EXPLAINED)}</p><p class="facts">{escape(told)}</p>{tables}'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>'


def _tables(rounds: Sequence[Round]) -> dict[str, tuple[Row, ...]]:
    return {"All loads": standings(rounds), **by_group(rounds)}


def _values(each: Round) -> tuple[object, ...]:
    figures = each.figures
    what = (each.load, each.group, each.seed, each.policy, figures.items, round(figures.in_time, 4))
    spent = (round(figures.worker_s, 2), figures.changes, figures.resizes, round(figures.recovery_s, 2))
    compared = (round(each.least_worker_s, 2), each.peak_worker_s, round(each.against_least, 4))
    return (*what, *spent, *compared)


def _markdown(rows: Sequence[Row]) -> str:
    lines = [HEADS, ("---", *["---:"] * (len(HEADS) - 1)), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _html(rows: Sequence[Row]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in HEADS)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row.cells())}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"
