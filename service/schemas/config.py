"""The configuration file: how the service is served, the apps that it runs, on which sources, and their objectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from compositions.errors import RecomposeError
from profiler.slo import Slo, parse_slo, together
from service.schemas.alerts import AlertsRequest
from service.schemas.machine import MachineBudgetRequest
from service.schemas.requests import StartRequest, Threshold
from service.schemas.slo import BudgetBody
from service.schemas.spec import WHOLE, Frozen, Number


def _texts(value: Any) -> Any:
    """One text, or several."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(each, str) for each in texts):
        raise ValueError("must be a text such as p95=400ms, or a list of them")
    for text in texts:
        _told(text)
    return texts


def _told(text: str) -> None:
    """Raises: ValueError; a fault of a file is told with its place."""
    try:
        parse_slo(text)
    except RecomposeError as error:
        raise ValueError(str(error).removeprefix("slo: ")) from error


class AppConfig(StartRequest):
    """The fields of a start body, and the objectives of the app."""

    slo: Annotated[list[str], BeforeValidator(_texts)] | None = None
    """As on the command line; several are to hold together. Null: nothing is wanted of it."""
    threshold: Threshold = 0.2
    budget: BudgetBody | None = None
    """What may be spent on it."""

    @property
    def wanted(self) -> Slo | None:
        """Raises: RecomposeError for objectives that cannot hold together."""
        if self.slo is None:
            return None
        slos: Sequence[Slo] = [parse_slo(text, threshold=float(self.threshold)) for text in self.slo]
        return together(slos, None if self.budget is None else self.budget.budget())


class ServeConfig(Frozen):
    """Options of ``recompose serve``, which win over these. Paths are relative to the file."""

    host: str | None = None
    port: Annotated[int, Field(strict=True, ge=0, le=65535), WHOLE] | None = None
    apps: list[str] = []
    compositions: list[str] = []
    state: str | None = None
    telemetry: bool | None = None
    telemetry_days: Annotated[Number, Field(gt=0)] | None = None
    telemetry_mb: Annotated[Number, Field(gt=0)] | None = None
    ray: str | None = None
    max_item_bytes: Annotated[int, Field(strict=True, ge=1), WHOLE] | None = None
    log_level: Literal["debug", "info", "warning", "error"] | None = None
    log_format: Literal["json", "text"] | None = None


class ServiceConfig(Frozen):
    service: ServeConfig = ServeConfig()
    alerts: AlertsRequest | None = None
    """Null: nobody changes those in force."""
    budget: MachineBudgetRequest | None = None
    """What all apps together may spend; null: nobody changes that in force."""
    apps: dict[str, AppConfig] = {}
    """By name: these run, as is said here."""
