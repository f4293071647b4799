"""Objectives in answers: the one in force, and the one that was accepted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from control.objectives import objective_of
from profiler.slo import Slo, Statistic
from service.bodies.base import Answer, Time
from service.bodies.budget import BudgetBody


@dataclass(frozen=True, slots=True)
class AcceptedSlo:
    """An objective as it was accepted."""

    id: int
    app: str
    slo: Slo
    accepted_at: str


class ObjectiveInForce(Answer):
    metric: Literal["latency", "throughput"]
    target: float | Literal["input_rate"]
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
    """Of several objectives the first one; ``objectives`` has all of them."""

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
