"""Pipelines of the TPCx-BB queries, with costs and selectivities measured by ``lab.benchmarks.query_costs``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from compositions.model import StageKind
from lab.papers.prasaad.operators import Operator
from lab.papers.report import read_file

CV = 0.3
"""Variation of a tuple's time. It was not measured for each: reading the clock takes as long as a light stage."""


class Measured(BaseModel):
    """One stage."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    kind: StageKind
    cost_us: Annotated[float, Field(gt=0)]
    selectivity: Annotated[float, Field(ge=0)]
    partitions: Annotated[int, Field(ge=1)]

    def operator(self) -> Operator:
        return Operator(self.name, self.kind, self.cost_us / 1e6, self.selectivity, self.partitions, CV)


class CostFile(BaseModel):
    """The content of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    about: dict[str, str] = {}
    """Machine, date."""
    queries: dict[str, tuple[Measured, ...]] = Field(min_length=1)

    @property
    def pipelines(self) -> Mapping[str, list[Operator]]:
        return {name: [stage.operator() for stage in stages] for name, stages in self.queries.items()}


def read_costs(path: Path) -> CostFile:
    """Raises: RecomposeError when the file cannot be read or has other content."""
    return read_file(path, CostFile, "lab.benchmarks.query_costs --out")
