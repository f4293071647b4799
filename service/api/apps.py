"""``/apps``: registered apps; start, stop, input, mode."""

from fastapi import APIRouter, Response

from service.api import problems
from service.api.deps import ExpectJson, KnownQuery, ThisDaemon, answers
from service.daemon.apps import STOP_TIMEOUT_S
from service.runner.rpc.requests import SetBatching, SetInput, Stop
from service.schemas.compositions import AppInfo
from service.schemas.requests import AnnounceRequest, ModeRequest, StartRequest, StopRequest
from service.schemas.spec import BatchingSpec, InputSpec
from service.schemas.status import Status

router = APIRouter(tags=["apps"], dependencies=[KnownQuery, ExpectJson])
CHANGE = answers(Status, 404, 409, 415, 503, 507)


@router.get("/apps", responses=answers(list[AppInfo]))
def apps(daemon: ThisDaemon) -> Response:
    """Registered apps, found by entry points and in the ``--apps`` directories."""
    return problems.Body(daemon.apps.all())


@router.post("/apps/{app}/start", responses=CHANGE)
def start(app: str, daemon: ThisDaemon, request: StartRequest | None = None) -> Response:
    """Starts an app. The answer comes at once, in state starting; its status tells when it runs, or why not."""
    asked = request or StartRequest()
    return problems.Body(daemon.apps.start(asked.spec(app), asked.objective))


@router.post("/apps/{app}/stop", responses=CHANGE)
def stop(app: str, daemon: ThisDaemon, request: StopRequest | None = None) -> Response:
    """Delivers what was accepted, then stops; answers when the app has ended. Meanwhile its state is stopping, and
    another stop, with a shorter time or with force, hurries it. The last results can be read until the next start. What
    a durable run had not delivered stays in its journal."""
    return problems.Body(daemon.apps.stop(app, _how(request)))


def _how(request: StopRequest | None) -> Stop | None:
    """Return the stop that is asked for; None: the usual one."""
    if request is None or (request.drain and request.timeout_s is None and not request.force):
        return None
    if request.force:
        return Stop(drain=False, timeout_s=0.0)
    return Stop(request.drain, STOP_TIMEOUT_S if request.timeout_s is None else float(request.timeout_s))


@router.put("/apps/{app}/input", responses=CHANGE)
def set_input(app: str, daemon: ThisDaemon, input: InputSpec) -> Response:
    """Changes input rate or pattern while running."""
    return problems.Body(daemon.apps.set(app, SetInput(input)))


@router.post("/apps/{app}/announce", responses=CHANGE)
def announce(app: str, daemon: ThisDaemon, request: AnnounceRequest) -> Response:
    """Says what load is to come: it is believed, and there are workers for it when it begins."""
    return problems.Body(daemon.objectives.announce(app, request))


@router.delete("/apps/{app}/announce", responses=answers(Status, 404, 409, 503, 507))
def take_back(app: str, daemon: ThisDaemon) -> Response:
    """Takes back all loads that were announced."""
    return problems.Body(daemon.objectives.take_back(app))


@router.put("/apps/{app}/batching", responses=CHANGE)
def set_batching(app: str, daemon: ThisDaemon, batching: BatchingSpec) -> Response:
    """Changes how many items travel together, while running. A composition with a ``batch`` of its own keeps that."""
    return problems.Body(daemon.apps.set(app, SetBatching(batching)))


@router.put("/apps/{app}/mode", responses=CHANGE)
def set_mode(app: str, daemon: ThisDaemon, request: ModeRequest) -> Response:
    """Mode auto adapts, observe decides and reports without acting, pinned keeps one composition."""
    return problems.Body(daemon.apps.set_mode(app, request.mode, request.composition))
