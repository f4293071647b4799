"""Reports of the papers' comparisons: findings and their verdicts, Markdown tables, CSV files, and files of inputs."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ValidationError

from compositions.errors import RecomposeError

M = TypeVar("M", bound=BaseModel)


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rule = ["---"] * len(head)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *lines))


def write_csv(path: Path, head: Sequence[str], lines: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(lines)


def read_file(path: Path, model: type[M], source: str) -> M:
    """Read a JSON file that ``source`` has written.

    Raises: RecomposeError when the file cannot be read or does not fit the model.
    """
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise RecomposeError(f"{path}: {error.strerror}; give a file of {source}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise RecomposeError(f"{path}: {place + ': ' if place else ''}{first['msg']}") from error


Verdict = Literal["reproduced", "trend only", "not reproduced", "not run"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A figure or table of a paper: the printed result beside ours, and a verdict that was computed from them."""

    item: str
    printed: str
    ours: str
    verdict: Verdict
    why: str
    command: str


def of_findings(found: Iterable[Finding]) -> str:
    lines = [[each.item, each.printed, each.ours, each.verdict, each.why] for each in found]
    return markdown(["item", "printed", "ours", "verdict", "why"], lines)
