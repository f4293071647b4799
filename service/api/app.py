"""The application factory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from fastapi.staticfiles import StaticFiles

from service.api import apps, compositions, dashboard, items, operation, problems, slo, status
from service.api.deps import add_schemas, add_security, remove_unused, yaml_body
from service.api.guard import Access, Guard
from service.api.operation import Exposition
from service.api.status import Broadcaster
from service.daemon.daemon import Daemon
from service.logs import Recent


def create_app(daemon: Daemon, access: Access | None = None, recent: Recent | None = None) -> FastAPI:
    """Return the API of ``daemon``; its lifespan restores the apps and, at the end, stops them with a drain."""
    app = FastAPI(
        title="Recompose",
        version=version("recompose"),
        description="Keep stream applications at their service-level objectives.",
        lifespan=_lifespan,
        default_response_class=problems.Body,
        docs_url=None,  # FastAPI's own page loads its scripts from the internet
        swagger_ui_oauth2_redirect_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a redirect would lead to any name that the Host header gives
    )
    app.state.daemon, seen = daemon, daemon.observation
    app.state.recent = recent or Recent()
    app.state.metrics = Exposition(partial(seen.statuses, asked_for=True), daemon.nodes.reachable)
    app.state.broadcaster = Broadcaster(lambda name: seen.status(name) if name else seen.statuses())
    topics = (slo.router, apps.router, items.router, status.router, compositions.router, operation.nodes)
    routers = (*topics, operation.router, dashboard.router)
    for router in routers:
        app.include_router(router)
    app.state.routes = [route for router in routers for route in router.routes]
    app.mount("/swagger", StaticFiles(packages=[("fastapi_swagger", "resources")]))
    problems.install(app)
    access = access or Access()
    app.add_middleware(Guard, access=access)
    _complete_document(app, daemon, access)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    daemon: Daemon = app.state.daemon
    await run_in_threadpool(daemon.restore)
    yield
    await app.state.broadcaster.close()
    await run_in_threadpool(daemon.close)


def _complete_document(app: FastAPI, daemon: Daemon, access: Access) -> None:
    """Add to the generated OpenAPI document what the routes' types cannot express."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = generate()
            add_schemas(document)
            remove_unused(document)
            if access.token is not None:
                add_security(document)
            document["paths"]["/compositions"]["post"]["requestBody"] = yaml_body(daemon.compositions.stages)
        return app.openapi_schema or {}

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the document
