"""Alert rules, and the alerts that they raised."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from service.schemas.base import Answer, Time
from service.schemas.spec import WHOLE, Frozen, Number

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


def _with_a_host(url: str) -> str:
    """Check the address. Raises: ValueError for an address to which no request could be sent."""
    try:
        split = urlsplit(url)
        host, _ = split.hostname, split.port  # the port is read only when it is asked for
    except ValueError as error:
        raise ValueError(f"{url[:80]!r} is not an address of HTTP: {error}") from error
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
    """Each alert is posted there, when it is raised and when it is over; left out: as it was."""


class Alert(Answer):
    """An alert, as it is posted to the webhook too."""

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
