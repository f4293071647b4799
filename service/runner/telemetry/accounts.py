"""Account for a run: what it used since the last record, and how many of its items came to what."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from apps.contract import App
from compositions.model import Composition
from datapipe.sources.fed import Fed
from datapipe.sources.inbox import Inbox
from service.runner.telemetry.usage import Usage
from service.runner.wiring.run import Run

COSTS_EVERY_S, RUN_EVERY_S = 10.0, 60.0
RUN_FIELDS = (
    "at", "began", "objective", "source", "product", "accepted", "delivered", "failed", "shed", "refused", "missed",
    "losses", "first_error",
)  # fmt: skip
COST_FIELDS = ("at", "composition", "worker_s", "cpu_s", "workers", "spares", "cores", "composition_version")


def version_of_app(app: type[App]) -> str | None:
    """Return a hash of the module that defines the app; ``None`` if its source is not there."""
    try:
        source = inspect.getsource(inspect.getmodule(app) or app)
    except (OSError, TypeError):
        return None
    return sha256(source.encode("utf-8", "replace")).hexdigest()[:12]


def version_of_composition(composition: Composition) -> str:
    """Return a hash of the composition's form, which tells it from another one of the same name."""
    return sha256(repr(composition.shape).encode()).hexdigest()[:12]


class Accounts:
    """``put`` takes a kind and a record of it; ``micros`` turns a time of the loop's clock into one since 1970."""

    def __init__(self, put: Callable[[str, Any], None], micros: Callable[[float], int]) -> None:
        self._put, self._micros = put, micros
        self._product = _product()
        self._began_s: float | None = None
        self._costs_due_s = self._run_due_s = 0.0
        self._worker_s = self._cpu_s = 0.0
        self._run: tuple[Any, ...] | None = None
        """The last record, as far as it has not been written."""

    def see(self, run: Run, usage: Usage, now_s: float, cores: float) -> None:
        """Take what is due after a turn of the manager."""
        if self._began_s is None:
            self._began_s, self._costs_due_s = now_s, now_s + COSTS_EVERY_S
        if now_s >= self._costs_due_s:
            self._costs_due_s = now_s + COSTS_EVERY_S
            self._put("costs", self._cost(run, usage, now_s, cores))
        self._run = self._account(run, now_s, self._began_s)
        if now_s >= self._run_due_s:
            self._run_due_s = now_s + RUN_EVERY_S
            self.close()

    def close(self) -> None:
        """Write the account of the last turn."""
        if self._run is not None:
            self._put("runs", self._run)
            self._run = None

    def _cost(self, run: Run, usage: Usage, now_s: float, cores: float) -> tuple[Any, ...]:
        view = run.loop.engine.view()
        cost = usage.cost(view.workers, cores)
        used_s, cpu_s = cost.worker_s - self._worker_s, None if cost.cpu_s is None else cost.cpu_s - self._cpu_s
        self._worker_s, self._cpu_s = cost.worker_s, self._cpu_s if cost.cpu_s is None else cost.cpu_s
        form = version_of_composition(view.composition)
        head = (self._micros(now_s), view.composition.name, used_s, cpu_s)
        return (*head, cost.workers, cost.spares, float(cost.cores), form)

    def _account(self, run: Run, now_s: float, began_s: float) -> tuple[Any, ...]:
        spec, objective, items = run.checked.spec, run.loop.manager.objective, run.items
        told = None if objective is None else ", ".join(part.slo.asked for part in objective.parts)
        head = (self._micros(now_s), self._micros(began_s), told, spec.source.kind, self._product)
        counts = (items.accepted, items.delivered, items.failed, items.shed, _refused(run))
        return (*head, *counts, run.intake.demand().missed, run.loop.failures.count, run.sink.first_error)


def _refused(run: Run) -> int:
    """Rows and messages that the app did not take, of sources that count them."""
    source, link = run.checked.source, run.checked.link
    if link is not None:
        return int(link.status()["rows_refused"])
    return source.refused if isinstance(source, Fed | Inbox) else 0


def _product() -> str | None:
    try:
        return version("recompose")
    except PackageNotFoundError:
        return None
