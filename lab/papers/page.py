"""Write the page of all papers: every figure and table, printed and ours side by side, from recorded results."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.papers import garcia
from lab.papers.leonarczyk import page as leonarczyk
from lab.papers.prasaad import page as prasaad
from lab.papers.report import EQUAL, Finding, of_findings
from lab.papers.vogel import patterns as vogel

HEAD = """# The papers

This page compares our results with the papers' figures; `recompose experiment --all` writes it. *Yes* means that our
figure is within the stated tolerance, or that all our runs have the stated order. *Trend only* means that the amount
differs, or that only a part is reproduced. The commands below a table repeat it. For a table without commands, run the
[experiments](experiments.md) named after its figures.
"""


@dataclass(frozen=True, slots=True)
class Paper:
    title: str
    findings: Callable[[], Sequence[Finding]]
    about: str
    """Tolerances and assumptions of several rows."""
    pictures: Mapping[str, str]
    """Captions by the name of a picture that ``run_all`` or the experiments make."""


PAPERS = (
    Paper(
        "Vogel et al., pattern compositions (2021), and SPar's regulator (2018)",
        vogel.findings,
        "The paper of 2021 compares the strategies `vogel` and `pdp21`. Compositions have numbers as names. Verdicts\n"
        "on figures 4 to 6 compare all changes of the composition. Stage times are assumed. The paper of 2018\n"
        "regulates the number of replicas; our simulated machine is fitted to its figures 2 and 4. *Factor* is the\n"
        "scaling factor. *Violations* are the share of control steps that miss the latency objective.\n"
        f"*Equal* means within {EQUAL:.0%}.",
        {
            "2021, figure 2": "fig02_ferret_static-b/compared.png",
            "2021, figure 4a, vogel": "fig04a_synthetic_balanced/vogel.png",
            "2021, figure 4a, pdp21": "fig04a_synthetic_balanced/pdp21.png",
            "2021, figure 5a": "fig05a_ferret_throughput/vogel.png",
            "2021, figure 6b": "fig06b_person_latency/vogel.png",
            "2021, figure 7": "fig07_ferret_adaptive/compared.png",
            "2018, figure 2": "spar_fig02_lane_replicas/compared.png",
            "2018, figure 5, scaling factor 1": "spar_fig04_07_lane_latency-fig05_sf1/spar.png",
        },
    ),
    Paper(
        "Prasaad et al., ordered streams on multicores (2017)",
        prasaad.findings,
        "[Schedulers and worklists](ordered.md) defines the terms. Our figures are medians of three runs\n"
        "(lowest–highest). Ranges span the queries. A statement holds if each run shows it, by a margin larger than\n"
        "the difference between runs. *A over B* is a ratio of throughputs unless a row names something else.\n"
        f"*Almost linear* means at least {prasaad.LINEAR} of a linear speed-up, *as well* at least {1 - prasaad.EQUAL} "
        f"of the\nother's throughput, *alike* within {prasaad.SIMILAR:.0%}, and *close* at most twice the cost.",
        {f"figure {number}": f"prasaad/figure-{number}.png" for number in range(8, 15)},
    ),
    Paper(
        "Leonarczyk, self-adaptive micro-batches (2024)",
        leonarczyk.lines,
        "Hits and distances are in per cent ([definitions](controllers.md)). Ranges span the controllers\n"
        f"{', '.join(leonarczyk.CONTROLLERS)}, at a threshold of 5%. *Printed setups* are the thesis's best settings.\n"
        "Verdicts on tables count the figures of all thresholds that are within a tolerance: at least "
        f"{leonarczyk.REPRODUCED:.0%} for *yes*,\nat least {leonarczyk.TREND:.0%} for *trend only*. "
        f"Other quantities may differ by {leonarczyk.TIMES:.0%}.",
        {f"figure {at}": f"leonarczyk/figure-{at}.png" for at in ("4.6", "5.1", "5.6", "5.7", "5.8", "5.9")},
    ),
    Paper(
        "Garcia et al., SPBench (2023)",
        garcia.recorded,
        "We compare the paper's statements about C++ programs on 12 to 40 threads with runs on two cores. Ranges span\n"
        "the apps, and × marks a ratio. In figures 12 to 15, it is the latency at the highest rates divided by that\n"
        "at the lowest. Dates are those of the runs. *Load* is the load average of other programs; on 2026-11-27, it\n"
        "was 8 to 13.",
        {
            "figure 8": "spbench_fig08_09_growing_batches-bzip2/farm.png",
            "figures 10 and 11": "spbench_fig10_11_lane_batches/compared.png",
            "figure 12, Bzip2": "patterns_bzip2-wave/2.png",
            "figure 16, Bzip2": "patterns_bzip2-spike/2.png",
        },
    ),
)


def run_all(out: Path, tell: Callable[[str], None]) -> None:
    """Run everything else that has to run, in ``out``, and store the data of all findings.

    Raises: subprocess.CalledProcessError if a command fails.
    """
    commands = (
        ("lab.benchmarks.batch_controllers", "--record", "--out", str(out / "leonarczyk")),
        ("lab.benchmarks.ordered", "--record", "--out", str(out / "prasaad")),
        ("lab.benchmarks.contention", "--record", "--out", str(out / "prasaad")),
        ("lab.benchmarks.query_matrix", "--record"),
        ("lab.papers.vogel.record", str(out)),
    )
    for module, *words in commands:
        tell(f"python -m {module} {' '.join(words)}")
        subprocess.run([sys.executable, "-m", module, *words], check=True)
    garcia.record(out)


def write(out: Path, page: Path, images: Path) -> None:
    """Write the page to a file, and copy its pictures in ``out`` to the folder ``images``."""
    images.mkdir(parents=True, exist_ok=True)
    for path in (path for paper in PAPERS for path in paper.pictures.values()):
        if (out / path).exists():
            shutil.copyfile(out / path, images / _flat(path))
    page.write_text(text(images, Path(os.path.relpath(images, page.parent)).as_posix()), encoding="utf-8")


def text(images: Path, link: str) -> str:
    """Return the page as Markdown, with the pictures that are in ``images`` behind ``link``."""
    return "\n".join([HEAD, *(_section(paper, images, link) for paper in PAPERS)])


def _flat(path: str) -> str:
    return path.replace("/", "-")


def _section(paper: Paper, images: Path, link: str) -> str:
    found = paper.findings()
    counts = Counter(each.verdict for each in found)
    summary = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    commands = dict.fromkeys(f"`{each.command}`" for each in found if "recompose experiment" not in each.command)
    pictures = [
        f"![{caption}]({link}/{_flat(path)})"
        for caption, path in paper.pictures.items()
        if (images / _flat(path)).exists()
    ]
    parts = [
        f"## {paper.title}",
        f"Results: {summary}.\n{paper.about}",
        of_findings(found),
        "Commands: " + ",\n".join(commands) + "." if commands else "",
        *pictures,
    ]
    return "\n\n".join(filter(None, parts)) + "\n"
