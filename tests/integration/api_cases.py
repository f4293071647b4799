"""The cases of ``test_api_schemathesis.py``: generated requests must pass all checks of schemathesis.

They run with invented names, where valid data must be accepted (404 counts as accepted), and on a running app. There,
status 422 may be right for a valid body, because a schema cannot contain an app's options.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi import checks

from service.api import create_app
from service.daemon.daemon import Daemon
from service.daemon.store.store import DaemonStore
from service.schemas.requests import StartRequest
from service.schemas.spec import SourceSpec
from tests.support.fakes import fake_daemon

pytest_plugins = ("schemathesis.pytest.plugin",)
HERE = {"Host": "localhost"}
STREAM = "/status/{app}/stream"
"""Never ends for an app that exists; that of all apps never ends."""
NOT_WHEN_RUNNING = [checks.positive_data_acceptance, checks.ensure_resource_availability, checks.use_after_free]
CANNOT_SAY = (
    "PUT /alerts",
    *("POST /compositions", "POST /apps/{app}/items", "POST /slo", "PUT /budget"),
    *("POST /apps/{app}/announce", "PUT /apps/{app}/batching", "POST /apps/{app}/start"),
)
"""A schema cannot express the rules of docs/guide/compositions.md, JSON lines, a share without statistic share,
a budget without workers, cores or registered apps, a load that ends before it begins, items with a controller, or the
text of an objective."""
EXAMPLES = int(os.environ["CASES"])
"""Of each operation; beyond a few, every value at the edge of what is allowed comes as well."""
SETTINGS = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
DAEMON = fake_daemon(DaemonStore(None))


@schemathesis.serializer("application/x-ndjson", "application/x-npy")
def as_it_is(context: schemathesis.SerializationContext, value: Any) -> bytes:
    return bytes(value) if isinstance(value, bytes) else str(value).encode(errors="replace")


schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(DAEMON), headers=HERE)
schema.config.generation.update(max_examples=EXAMPLES)
schema.config.phases.update(phases=["examples", *(["coverage"] if EXAMPLES > 2 else []), "fuzzing"])


@pytest.fixture(scope="module", autouse=True)
def daemon() -> Iterator[Daemon]:
    DAEMON.restore()
    yield DAEMON
    DAEMON.close()


@schema.exclude(path="/stream").parametrize()
@SETTINGS
def test_invented_names(case: schemathesis.Case) -> None:
    cannot_say = case.operation.label in CANNOT_SAY
    case.call_and_validate(headers=HERE, excluded_checks=[checks.positive_data_acceptance] if cannot_say else [])


@schema.exclude(path=[STREAM, "/stream"]).parametrize()
@SETTINGS
def test_a_running_app(case: schemathesis.Case) -> None:
    if DAEMON.observation.status("synthetic").state != "stable":
        DAEMON.apps.start(StartRequest(source=SourceSpec(kind="push")).spec("synthetic"))
    if "app" in case.path_parameters:
        case.path_parameters["app"] = "synthetic"
    case.call_and_validate(headers=HERE, excluded_checks=NOT_WHEN_RUNNING)
