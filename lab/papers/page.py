"""Write the page of all papers: every figure and table, printed and ours side by side, from recorded results."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.papers import garcia
from lab.papers.leonarczyk import page as leonarczyk
from lab.papers.prasaad import page as prasaad
from lab.papers.report import Finding, of_findings
from lab.papers.vogel import page as vogel

HEAD = """# The papers

This page compares what the project's strategies, schedulers and controllers do with what their papers print.
`recompose experiment --all` writes it; verdicts are computed from the figures.

- *Reproduced*: within the stated tolerance of print, or the stated order in every run.
- *Trend only*: the direction is the paper's, the amount is not, or one part of several differs.
- *Not reproduced*, *not run*: with the reason.
"""


@dataclass(frozen=True, slots=True)
class Paper:
    title: str
    findings: Callable[[], Sequence[Finding]]
    images: str
    """Beginning of the names of its pictures."""


PAPERS = (
    Paper("Vogel et al., pattern compositions (2021), and SPar's regulator (2018)", vogel.findings, "vogel"),
    Paper("Prasaad et al., ordered streams on multicores (2017)", prasaad.findings, "prasaad"),
    Paper("Leonarczyk, self-adaptive micro-batches (2024)", leonarczyk.lines, "leonarczyk"),
    Paper("Garcia et al., SPBench (2023)", garcia.recorded, "garcia"),
)
COMMANDS = (
    ("lab.benchmarks.batch_controllers", "--record"),
    ("lab.benchmarks.ordered", "--record"),
    ("lab.benchmarks.contention", "--record"),
    ("lab.benchmarks.query_matrix", "--record"),
)
"""What has to run beside the experiments; each stores what its findings rest on."""


def run_all(experiments: Path, tell: Callable[[str], None]) -> None:
    """Run ``COMMANDS``, and store what the results in the folder ``experiments`` say.

    Raises: subprocess.CalledProcessError if a command fails.
    """
    for module, *words in (*COMMANDS, ("lab.benchmarks.vogel_record", str(experiments))):
        tell(f"python -m {module} {' '.join(words)}")
        subprocess.run([sys.executable, "-m", module, *words], check=True)
    garcia.record(experiments)


def page(images: Path, link: str) -> str:
    """Return the page as Markdown, with the pictures in ``images`` behind ``link``."""
    return "\n".join([HEAD, *(_section(paper, images, link) for paper in PAPERS)])


def _section(paper: Paper, images: Path, link: str) -> str:
    found = paper.findings()
    counts = Counter(each.verdict for each in found)
    summary = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    commands = dict.fromkeys(each.command for each in found)
    pictures = [f"![{file.stem}]({link}/{file.name})" for file in sorted(images.glob(f"{paper.images}-*.png"))]
    parts = [
        f"## {paper.title}",
        f"{summary[0].upper()}{summary[1:]}.",
        of_findings(found),
        "```bash\n" + "\n".join(commands) + "\n```",
        *pictures,
    ]
    return "\n\n".join(parts) + "\n"
