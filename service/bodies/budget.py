"""What may be spent, as REST says it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from profiler.budget import MOST, Budget
from service.bodies.spec import WHOLE, Frozen, Number

Workers = Annotated[int, Field(strict=True, ge=1, le=MOST), WHOLE]
Cores = Annotated[Number, Field(gt=0, le=MOST)]


class BudgetBody(Frozen):
    """Limits; null: none."""

    workers: Workers | None = Field(default=None, description="Of all groups together.")
    cores: Cores | None = Field(default=None, description="Kept busy at the expected input rate.")

    def budget(self) -> Budget:
        return Budget(self.workers, None if self.cores is None else float(self.cores))

    @classmethod
    def of(cls, budget: Budget | None) -> BudgetBody | None:
        return None if budget is None else cls(workers=budget.workers, cores=budget.cores)
