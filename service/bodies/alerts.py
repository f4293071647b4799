"""Rules of when somebody is to be told, and what was told."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field

from service.bodies.base import Answer, Time
from service.bodies.spec import WHOLE, Frozen, Number

HOUR_S = 3600.0
Whole = Annotated[int, Field(strict=True, ge=0, le=10**9), WHOLE]
App = Annotated[
    str | None, Field(default=None, min_length=1, max_length=100, description="Of this app alone; null: of each.")
]
For = Annotated[Number, Field(default=60.0, ge=0, le=24 * HOUR_S, description="It must have been so for as long, s.")]


class ObjectiveRule(Frozen):
    """The objective is violated or out of reach, or the app has failed. Times without a verdict count as before."""

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
    """More than ``above`` workers and runners were started in place of lost ones within the last ``within_s``."""

    about: Literal["restarts"]
    app: App
    above: Whole = 0
    within_s: Annotated[Number, Field(gt=0, le=24 * HOUR_S)] = 600.0


Rule = Annotated[ObjectiveRule | BacklogRule | RestartsRule, Field(discriminator="about")]
Url = Annotated[str, Field(pattern=r"^https?://[A-Za-z0-9._~:@\[\]-]+(/[!-~]*)?$", max_length=2000)]


class AlertsRequest(Frozen):
    """All rules at once."""

    rules: Annotated[list[Rule], Field(max_length=200)] = []
    webhook: Url | None = None
    """Each alert is posted there, when it is raised and when it is over; left out: as it was."""


class Alert(Answer):
    """What is posted to the webhook too."""

    app: str
    about: Literal["objective", "backlog", "restarts"]
    raised: bool
    """False: it is over."""
    told: str
    at: Time


class AlertsInForce(Answer):
    rules: list[Rule]
    webhook: str | None
    """The host of it; the rest may be a secret."""
    webhook_fault: str | None
    """Why the last alert could not be posted."""
    alerts: list[Alert]
    """Newest first: what was raised and what was over, as far as is remembered since the service began."""

    @staticmethod
    def host_of(webhook: str | None) -> str | None:
        if webhook is None:
            return None
        split = urlsplit(webhook)
        return f"{split.scheme}://{split.netloc.rpartition('@')[2]}/…"
