"""Objectives, budgets, each app's share of the machine, and alerts, in requests and answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, Field, model_validator

from compositions.wording import figure
from control.arbitration.machine import MachineBudget, Terms
from control.decisions import Grant
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
    """With statistic ``share``: the share of the items that must be within the target."""
    bound: float | None
    """Value beyond which the SLO counts as violated; null while the input rate that it depends on is not known."""

    @classmethod
    def one(cls, slo: Slo, input_rate_per_s: float | None) -> "ObjectiveInForce":
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
    """The objectives in force; the fields are those of the first one, ``objectives`` has all of them."""

    objectives: list[ObjectiveInForce] | None = None
    """All objectives; null if there is only one."""
    budget: "BudgetBody | None" = None

    @classmethod
    def of(cls, slo: Slo, input_rate_per_s: float | None) -> "SloInForce":
        each = [ObjectiveInForce.one(part, input_rate_per_s) for part in slo.each]
        told = each if slo.also else None
        return SloInForce(**dict(each[0]), objectives=told, budget=BudgetBody.of(slo.budget))


class StoredSlo(SloInForce):
    id: int
    app: str
    accepted_at: Time

    @classmethod
    def stored(cls, accepted: AcceptedSlo, input_rate_per_s: float | None) -> Self:
        return cls.taken_from(accepted, **dict(SloInForce.of(accepted.slo, input_rate_per_s)))


Workers = Annotated[int, Field(strict=True, ge=1, le=MOST), WHOLE]
Cores = Annotated[Number, Field(gt=0, le=MOST)]


class BudgetBody(Frozen):
    """Limits; a null limit is no limit."""

    workers: Workers | None = Field(default=None, description="Maximum number of workers in all groups together.")
    cores: Cores | None = Field(default=None, description="Maximum number of busy cores at the expected input rate.")

    def budget(self) -> Budget:
        return Budget(self.workers, self.cores)

    @classmethod
    def of(cls, budget: Budget | None) -> "BudgetBody | None":
        return None if budget is None else cls(workers=budget.workers, cores=budget.cores)


MOST_SHARED = 1_000
"""Maximum number of workers; the apps are asked what they would do with each number up to it."""
Priority = Annotated[Number, Field(gt=0, le=1000)]
Floor = Annotated[Number, Field(ge=0, le=MOST)]


class TermsBody(Frozen):
    """The priority and the floor of one app among others."""

    priority: Priority = Field(default=1.0, description="Weight of this app's gain; the default of all apps is 1.")
    floor: Floor = Field(
        default=0.0, description="Guaranteed share: whole workers, or cores if the budget has no workers."
    )


class MachineBudgetRequest(Frozen):
    """The limits of all apps together; apps that are not named have priority 1 and no floor."""

    workers: Annotated[Workers, Field(le=MOST_SHARED)] | None = None
    cores: Cores | None = Field(
        default=None, description="Used in plans, not enforced. With workers, an app gets the same part of both."
    )
    apps: dict[str, TermsBody] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _can_be_kept(self) -> Self:
        if self.workers is None and self.cores is None:
            raise ValueError("a budget needs workers or cores; to remove it, send null or run recompose budget --lift")
        most, unit = (self.cores, "cores") if self.workers is None else (self.workers, "workers")
        floors = sum(each.floor if self.workers is None else ceil(each.floor) for each in self.apps.values())
        if most is not None and floors > most:
            told = f"the floors add up to {figure(floors, 6)} {unit}"
            raise ValueError(f"{told}; must be at most the budget, {figure(most, 6)} {unit}")
        return self

    def budget(self) -> MachineBudget:
        """Return the budget for the arbiter."""
        terms = {app: Terms(each.priority, each.floor) for app, each in self.apps.items()}
        return MachineBudget(self.cores, self.workers, terms)


class AcceptedBudget(BaseModel):
    """A budget in its stored form."""

    asked: MachineBudgetRequest
    accepted_at: str


class GrantBody(Answer):
    """The share of one app, how well the app meets its objective with it, and what it would do with more."""

    workers: int | None
    cores: float | None
    total: BudgetBody
    """Budget of all apps together."""
    reached: float
    """Part of the objective that is reached, from 0 to 1."""
    more: BudgetBody | None = None
    """Smallest addition with which the app would do better; null: more would not help."""
    reached_with_more: float | None = None
    composition_with_more: str | None = None
    reason: str

    def told(self) -> str:
        """Return the share in words, such as ``5 workers``."""
        return Budget(self.workers, self.cores).told()

    @classmethod
    def of(cls, grant: Grant | None) -> "GrantBody | None":
        if grant is None:
            return None
        total, more = BudgetBody.of(grant.total), BudgetBody.of(grant.more)
        return cls.taken_from(grant, grant.budget, total=total, more=more)


class MachineShares(Answer):
    """The budget of the machine, and the share of it that each running app has."""

    workers: int | None
    cores: float | None
    """Maximum number of cores; if ``workers`` is null too, there is no budget."""
    apps: dict[str, TermsBody]
    accepted_at: Time | None
    shares: dict[str, GrantBody]
    """Shares by app. Apps that are not listed keep what they have."""

    @classmethod
    def of(cls, accepted: AcceptedBudget | None, grants: Mapping[str, Grant]) -> Self:
        if accepted is None:
            return cls(workers=None, cores=None, apps={}, accepted_at=None, shares={})
        asked, at = accepted.asked, accepted.accepted_at
        shares = {app: body for app, grant in grants.items() if (body := GrantBody.of(grant)) is not None}
        apps = {app: TermsBody(**dict(each)) for app, each in asked.apps.items()}
        return cls(workers=asked.workers, cores=asked.cores, apps=apps, accepted_at=at, shares=shares)


HOUR_S = 3600.0
Whole = Annotated[int, Field(strict=True, ge=0, le=10**9), WHOLE]
App = Annotated[
    str | None,
    Field(default=None, min_length=1, max_length=100, description="App that the rule watches; null: every app."),
]
For = Annotated[
    Number, Field(default=60.0, ge=0, le=24 * HOUR_S, description="Time for which the condition must hold, in seconds.")
]


class ObjectiveRule(Frozen):
    """The objective is violated or out of reach, or the app has failed. Without a verdict, the last one counts."""

    about: Literal["objective"]
    app: App
    for_s: For


class BacklogRule(Frozen):
    """More than ``above`` items wait for admission."""

    about: Literal["backlog"]
    app: App
    above: Whole
    for_s: For


class RestartsRule(Frozen):
    """More than ``above`` workers and runners were replaced, because they were lost, within the last ``within_s``."""

    about: Literal["restarts"]
    app: App
    above: Whole = 0
    within_s: Annotated[Number, Field(gt=0, le=24 * HOUR_S)] = 600.0


Rule = Annotated[ObjectiveRule | BacklogRule | RestartsRule, Field(discriminator="about")]


def _with_a_host(url: str) -> str:
    """Check the address. Raises: ValueError for an address to which no request could be sent."""
    try:
        split = urlsplit(url)
        host, _ = split.hostname, split.port  # the port is read only when it is asked for
    except ValueError as error:
        raise ValueError(f"{url[:80]!r} is not an HTTP URL: {error}") from error
    if not host:
        raise ValueError(f"{url[:80]!r} names no host; give an address such as https://hooks.example.com/alerts")
    return url


Url = Annotated[
    str, Field(pattern=r"^https?://[A-Za-z0-9._~:@\[\]-]+(/[!-~]*)?$", max_length=2000), AfterValidator(_with_a_host)
]


class AlertsRequest(Frozen):
    """All alert rules at once."""

    rules: Annotated[list[Rule], Field(max_length=200)] = []
    webhook: Url | None = None
    """URL to which each alert is posted when it is raised and when it is over; left out: the URL stays as it was."""


class Alert(Answer):
    """An alert, also in the form that is posted to the webhook."""

    app: str
    about: Literal["objective", "backlog", "restarts"]
    raised: bool
    """True if the alert is raised, false if it is over."""
    told: str
    at: Time


class AlertsInForce(Answer):
    rules: list[Rule]
    webhook: str | None
    """Host of the webhook; the rest of the URL may be a secret."""
    webhook_fault: str | None
    alerts: list[Alert]
    """Raised and ended alerts, newest first, as far as the service remembers them since it started."""

    @staticmethod
    def host_of(webhook: str | None) -> str | None:
        if webhook is None:
            return None
        split = urlsplit(webhook)
        return f"{split.scheme}://{split.netloc.rpartition('@')[2]}/…"
