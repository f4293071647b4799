"""Objectives and budgets in answers: those in force, and those that were accepted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from control.objectives import objective_of
from profiler.budget import MOST, Budget
from profiler.slo import Slo, Statistic, Target
from service.schemas.base import Answer, Time
from service.schemas.spec import WHOLE, Frozen, Number


@dataclass(frozen=True, slots=True)
class AcceptedSlo:
    """An objective as it was accepted."""

    id: int
    app: str
    slo: Slo
    accepted_at: str


class ObjectiveInForce(Answer):
    metric: Literal["latency", "throughput"]
    target: Target
    threshold: float
    statistic: Statistic | None = None
    share: float | None = None
    """With statistic ``share``: so many of the items are wanted within the target."""
    bound: float | None
    """Beyond it the SLO counts as violated; null while the input rate it depends on is not known."""

    @classmethod
    def one(cls, slo: Slo, input_rate_per_s: float | None) -> ObjectiveInForce:
        objective = objective_of(slo)
        return ObjectiveInForce(
            metric=slo.metric,
            target=slo.target,
            threshold=slo.threshold,
            statistic=objective.statistic,
            share=slo.quantile if slo.statistic == "share" else None,
            bound=objective.bound(input_rate_per_s),
        )


class SloInForce(ObjectiveInForce):
    """The first of several objectives; ``objectives`` has all of them."""

    objectives: list[ObjectiveInForce] | None = None
    """Null where there is but one."""
    budget: BudgetBody | None = None

    @classmethod
    def of(cls, slo: Slo, input_rate_per_s: float | None) -> SloInForce:
        each = [ObjectiveInForce.one(part, input_rate_per_s) for part in slo.each]
        told = each if slo.also else None
        return SloInForce(**dict(each[0]), objectives=told, budget=BudgetBody.of(slo.budget))


class _Accepted(Answer):
    id: int
    app: str


class StoredSlo(SloInForce, _Accepted):
    accepted_at: Time

    @classmethod
    def stored(cls, accepted: AcceptedSlo, input_rate_per_s: float | None) -> StoredSlo:
        slo = SloInForce.of(accepted.slo, input_rate_per_s)
        return cls(id=accepted.id, app=accepted.app, accepted_at=accepted.accepted_at, **dict(slo))


Workers = Annotated[int, Field(strict=True, ge=1, le=MOST), WHOLE]
Cores = Annotated[Number, Field(gt=0, le=MOST)]


class BudgetBody(Frozen):
    """Limits; null: none."""

    workers: Workers | None = Field(default=None, description="Maximum number of workers in all groups together.")
    cores: Cores | None = Field(default=None, description="Kept busy at the expected input rate.")

    def budget(self) -> Budget:
        return Budget(self.workers, None if self.cores is None else float(self.cores))

    @classmethod
    def of(cls, budget: Budget | None) -> BudgetBody | None:
        return None if budget is None else cls(workers=budget.workers, cores=budget.cores)
