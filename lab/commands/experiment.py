"""``recompose experiment``: run experiments that a file describes, and report on them."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from compositions.errors import RecomposeError

EXPERIMENTS = Path(__file__).parents[1] / "benchmarks" / "experiments"


@click.command()
@click.argument("places", nargs=-1, type=click.Path(exists=True, path_type=Path), metavar="FILE…")
@click.option("--all", "all_papers", is_flag=True, help="Run all experiments of the papers, and write papers.md.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default="experiments", help="Folder of runs.")
@click.option("--quick", is_flag=True, help="Make the short runs that the files define, as a check.")
@click.option("--fresh", is_flag=True, help="Repeat runs that exist already.")
def experiment(places: tuple[Path, ...], all_papers: bool, out: Path, quick: bool, fresh: bool) -> None:
    """Run the experiments that files describe.

    FILE… are experiment files, or folders of them. Experiments run in turn; a repeated call continues them.

    The command writes the raw runs, results.json and plots of each experiment, and one report.html for all.
    """
    from lab.experiments.conduct import conduct, seconds_of  # imported here: plots take a second to load
    from lab.experiments.report import html
    from lab.experiments.spec import read_experiments
    from service import logs
    from service.cli import render

    logs.configure("warning")
    places = (EXPERIMENTS,) if all_papers else places
    if not places:
        raise click.UsageError("give experiments (*.yaml), folders of them, or --all")
    files = [file for place in places for file in (sorted(place.glob("*.yaml")) if place.is_dir() else [place])]
    if not files:
        raise RecomposeError(f"no experiment (*.yaml) in {', '.join(map(str, places))}")
    console = render.console(stderr=True)
    experiments = {name: each for file in files for name, each in read_experiments(file, quick).items()}
    console.print(f"{len(experiments)} experiments, about {sum(map(seconds_of, experiments.values())) / 60:.0f} min")
    if any(each.driver == "ray" for each in experiments.values()):
        from runtime.pools.ray import cluster

        cluster.connect()
    found = []
    for name, each in experiments.items():
        folder, place = out / name, each.input.place
        if place is not None and not place.exists():
            console.print(f"{each.title}: left out, {place} of its input is not there")
            continue
        if fresh:
            shutil.rmtree(folder, ignore_errors=True)
        found.append(conduct(each, folder, console.print))
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.html").write_text(html(found), encoding="utf-8")
    click.echo(str(out / "report.html"))
    if all_papers:
        from lab.papers.page import run_all, write

        run_all(out, console.print)
        write(out, out / "papers.md", out / "images")
        click.echo(str(out / "papers.md"))
