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
    """Return the registered apps, found by entry points and in the ``--apps`` directories."""
    return problems.Body(daemon.apps.all())


@router.post("/apps/{app}/start", responses=CHANGE)
def start(app: str, daemon: ThisDaemon, request: StartRequest | None = None) -> Response:
    """Start an app. The answer comes at once, with state starting; the app's status shows when it runs, or why not."""
    asked = request or StartRequest()
    return problems.Body(daemon.apps.start(asked.spec(app), asked.objective))


@router.post("/apps/{app}/stop", responses=CHANGE)
def stop(app: str, daemon: ThisDaemon, request: StopRequest | None = None) -> Response:
    """Deliver accepted items, then stop; the answer comes when the app has ended. Until then its state is stopping, and
    another stop with a shorter time or with force ends it sooner. The last results can be read until the next start.
    Undelivered items of a durable run stay in its journal."""
    return problems.Body(daemon.apps.stop(app, _how(request)))


def _how(request: StopRequest | None) -> Stop | None:
    """Return the requested kind of stop; None: the default."""
    if request is None or (request.drain and request.timeout_s is None and not request.force):
        return None
    if request.force:
        return Stop(drain=False, timeout_s=0.0)
    return Stop(request.drain, STOP_TIMEOUT_S if request.timeout_s is None else float(request.timeout_s))


@router.put("/apps/{app}/input", responses=CHANGE)
def set_input(app: str, daemon: ThisDaemon, input: InputSpec) -> Response:
    """Change the input rate or pattern while the app runs."""
    return problems.Body(daemon.apps.set(app, SetInput(input)))


@router.post("/apps/{app}/announce", responses=CHANGE)
def announce(app: str, daemon: ThisDaemon, request: AnnounceRequest) -> Response:
    """Announce an upcoming load; the manager relies on it and has workers ready when it begins."""
    return problems.Body(daemon.objectives.announce(app, request))


@router.delete("/apps/{app}/announce", responses=answers(Status, 404, 409, 503, 507))
def take_back(app: str, daemon: ThisDaemon) -> Response:
    """Remove all announced loads."""
    return problems.Body(daemon.objectives.take_back(app))


@router.put("/apps/{app}/batching", responses=CHANGE)
def set_batching(app: str, daemon: ThisDaemon, batching: BatchingSpec) -> Response:
    """Change the bundle size while the app runs. A composition with a ``batch`` of its own keeps it."""
    return problems.Body(daemon.apps.set(app, SetBatching(batching)))


@router.put("/apps/{app}/mode", responses=CHANGE)
def set_mode(app: str, daemon: ThisDaemon, request: ModeRequest) -> Response:
    """Set the mode. auto adapts the app, observe decides without acting, pinned keeps one composition."""
    return problems.Body(daemon.apps.set_mode(app, request.mode, request.composition))
