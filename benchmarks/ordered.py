"""Schedulers, worklists and ways to send of Prasaad et al. in virtual time: the data of figures 8 to 14.

    python -m benchmarks.ordered [--out DIR] [--inputs 20000] [--costs benchmarks/query_costs.json]

Writes ``report.md``, with the claims and whether they are met, and a CSV file a figure.
"""

from __future__ import annotations

import csv
import time
from pathlib import Path

import click

from benchmarks.harness import metadata
from service.experiments.ordered.figures import Figure, all_of
from service.experiments.ordered.measured import read_costs
from service.experiments.ordered.report import report


def write(figure: Figure, out: Path) -> None:
    with (out / f"figure-{figure.name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(figure.head)
        writer.writerows(figure.lines())


@click.command()
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("ordered"))
@click.option("--inputs", default=20_000, show_default=True, help="Of each run.")
@click.option(
    "--costs", type=click.Path(dir_okay=False, path_type=Path), default=Path(__file__).with_name("query_costs.json")
)
def main(out: Path, inputs: int, costs: Path) -> None:
    """Makes all figures, one after the other."""
    began_s = time.process_time()
    measured = read_costs(costs)
    out.mkdir(parents=True, exist_ok=True)
    figures = []
    for plan in all_of(measured.pipelines, inputs):
        figure = plan.made()
        write(figure, out)
        figures.append(figure)
        click.echo(f"figure {figure.name}: {len(figure.rows)} runs")
    spent_s = time.process_time() - began_s
    facts = {
        "runs": f"{sum(len(figure.rows) for figure in figures)} of {inputs:,} inputs, {spent_s:.0f} s of CPU",
        "costs of the queries": ", ".join(f"{name} {value}" for name, value in measured.about.items()),
        **metadata(),
    }
    (out / "report.md").write_text(report(figures, facts), encoding="utf-8")
    click.echo(str(out / "report.md"))


if __name__ == "__main__":
    main()
