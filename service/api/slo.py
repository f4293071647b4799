"""``/slo``, ``/budget`` and ``/alerts``: the objectives of each app, the budget of the machine, and alert rules."""

from typing import Annotated

from fastapi import APIRouter, Body, Response

from service.api import problems
from service.api.deps import ExpectJson, KnownQuery, ThisDaemon, answers, documented
from service.schemas.requests import SloRequest
from service.schemas.slo import AlertsInForce, AlertsRequest, MachineBudgetRequest, MachineShares, StoredSlo

router = APIRouter(tags=["objectives"], dependencies=[KnownQuery, ExpectJson])
Asked = Annotated[MachineBudgetRequest | None, Body(description="null lifts it.")]


@router.post("/slo", responses=answers(StoredSlo, 404, 415, 503, 507))
def set_slo(daemon: ThisDaemon, slo: SloRequest) -> Response:
    """Sets or replaces the SLO of an app; takes effect at the manager's next tick, or when the app starts."""
    return problems.Body(daemon.objectives.set(slo.app, slo.slo()))


@router.get("/slo", responses=answers(list[StoredSlo]))
def slos(daemon: ThisDaemon) -> Response:
    """The SLOs of all apps that have one."""
    return problems.Body(daemon.objectives.all())


@router.get("/slo/{app}", responses=answers(StoredSlo, 404))
def slo(app: str, daemon: ThisDaemon) -> Response:
    """The SLO of an app; 404 when it has none."""
    return problems.Body(daemon.objectives.of(app))


@router.delete("/slo/{app}", status_code=204, responses=documented(404, 503, 507))
def remove_slo(app: str, daemon: ThisDaemon) -> Response:
    """Removes the SLO: the app runs on as it is."""
    daemon.objectives.remove(app)
    return Response(status_code=204)


@router.get("/budget", responses=answers(MachineShares))
def budget(daemon: ThisDaemon) -> Response:
    """The budget of the machine, and what each app has of it; null where there is none."""
    return problems.Body(daemon.machine.shares())


@router.put("/budget", responses=answers(MachineShares, 415, 503, 507))
def set_budget(daemon: ThisDaemon, asked: Asked) -> Response:
    """Sets or replaces it; the apps hear of it within a second, and again after a restart."""
    return problems.Body(daemon.machine.set(asked))


@router.delete("/budget", status_code=204, responses=documented(503, 507))
def lift_budget(daemon: ThisDaemon) -> Response:
    """Each app plans for itself again. No error where there is none."""
    daemon.machine.set(None)
    return Response(status_code=204)


@router.get("/alerts", responses=answers(AlertsInForce))
def alerts(daemon: ThisDaemon) -> Response:
    """The rules in force, and the latest alerts."""
    return problems.Body(daemon.alerts.in_force())


@router.put("/alerts", responses=answers(AlertsInForce, 404, 415, 503, 507))
def set_alerts(daemon: ThisDaemon, asked: AlertsRequest) -> Response:
    """Sets all rules, in place of those that were. They are looked at once a second."""
    return problems.Body(daemon.alerts.set(asked))
