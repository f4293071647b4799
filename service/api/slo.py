"""``/slo``, ``/budget`` and ``/alerts``: the objectives of each app, the budget of the machine, and alert rules."""

from typing import Annotated

from fastapi import APIRouter, Body, Response

from service.api import problems
from service.api.deps import ExpectJson, KnownQuery, ThisDaemon, answers, documented
from service.schemas.requests import SloRequest
from service.schemas.slo import AlertsInForce, AlertsRequest, MachineBudgetRequest, MachineShares, StoredSlo

router = APIRouter(tags=["objectives"], dependencies=[KnownQuery, ExpectJson])
Asked = Annotated[MachineBudgetRequest | None, Body(description="null removes the budget.")]


@router.post("/slo", responses=answers(StoredSlo, 404, 415, 503, 507))
def set_slo(daemon: ThisDaemon, slo: SloRequest) -> Response:
    """Set or replace the SLO of an app; it takes effect at the manager's next tick, or when the app starts."""
    return problems.Body(daemon.objectives.set(slo.app, slo.slo()))


@router.get("/slo", responses=answers(list[StoredSlo]))
def slos(daemon: ThisDaemon) -> Response:
    """Return the SLOs of all apps that have one."""
    return problems.Body(daemon.objectives.all())


@router.get("/slo/{app}", responses=answers(StoredSlo, 404))
def slo(app: str, daemon: ThisDaemon) -> Response:
    """Return the SLO of an app; 404 if it has none."""
    return problems.Body(daemon.objectives.of(app))


@router.delete("/slo/{app}", status_code=204, responses=documented(404, 503, 507))
def remove_slo(app: str, daemon: ThisDaemon) -> Response:
    """Remove the SLO; the app keeps running unchanged."""
    daemon.objectives.remove(app)
    return Response(status_code=204)


@router.get("/budget", responses=answers(MachineShares))
def budget(daemon: ThisDaemon) -> Response:
    """Return the budget of the machine and each app's share; null if there is no budget."""
    return problems.Body(daemon.machine.shares())


@router.put("/budget", responses=answers(MachineShares, 415, 503, 507))
def set_budget(daemon: ThisDaemon, asked: Asked) -> Response:
    """Set or replace the budget; the apps receive it within a second, and again after a restart."""
    return problems.Body(daemon.machine.set(asked))


@router.delete("/budget", status_code=204, responses=documented(503, 507))
def lift_budget(daemon: ThisDaemon) -> Response:
    """Remove the budget, so that each app plans for itself. It is no error if there is none."""
    daemon.machine.set(None)
    return Response(status_code=204)


@router.get("/alerts", responses=answers(AlertsInForce))
def alerts(daemon: ThisDaemon) -> Response:
    """Return the alert rules and the latest alerts."""
    return problems.Body(daemon.alerts.in_force())


@router.put("/alerts", responses=answers(AlertsInForce, 404, 415, 503, 507))
def set_alerts(daemon: ThisDaemon, asked: AlertsRequest) -> Response:
    """Replace all alert rules. The service evaluates them once a second."""
    return problems.Body(daemon.alerts.set(asked))
