"""A cost law measured on a real app (``lab.benchmarks.military_server --law``), in place of the assumed one."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lab.papers.leonarczyk.plant import CostLaw, Pipeline
from lab.papers.report import read_file

Share = Annotated[float, Field(ge=0, le=1)]
Times = tuple[Annotated[float, Field(ge=0)], ...]


class LawFile(BaseModel):
    """The content of the file; other fields in it are for people."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    about: dict[str, str] = {}
    """Machine, date, composition."""
    loads: tuple[Share, ...] = Field(min_length=2)
    """0: the easiest tuples, 1: the hardest."""
    a_ms: Times
    """Time of a bundle of each load, from source to sink,"""
    b_ms: Times
    """and what each of its tuples adds."""
    cv: Share = 0.03
    drift_cv: Share = 0.1
    in_flight: int = Field(ge=1)

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if not len(self.loads) == len(self.a_ms) == len(self.b_ms):
            counts = f"{len(self.loads)}, {len(self.a_ms)} and {len(self.b_ms)}"
            raise ValueError(f"loads, a_ms and b_ms have {counts} values; must be as many")
        if any(first >= second for first, second in pairwise(self.loads)):
            raise ValueError(f"loads are {self.loads}; must rise")
        return self


def read_law(path: Path, as_ms: float = 1.0) -> Pipeline:
    """The pipeline that a file tells of; ``as_ms``: what a millisecond of it is to be in virtual time.

    A controller knows times as shares of its target alone, so that another target is the same as another unit.

    Raises: RecomposeError when the file cannot be read or is no law.
    """
    found = read_file(path, LawFile, "lab.benchmarks.military_server --law")
    law = CostLaw(
        tuple(a * as_ms for a in found.a_ms), tuple(b * as_ms for b in found.b_ms), found.loads,
        cv=found.cv, drift_cv=found.drift_cv, origin=_origin(found.about),
    )  # fmt: skip
    return Pipeline(law, found.in_flight)


def _origin(about: dict[str, str]) -> str:
    told = [about[name] for name in ("machine", "date") if name in about]
    return "measured" + (f" ({', '.join(told)})" if told else "")
