"""The start body takes what ``recompose start``, ``recompose run``, a script and the service's file take."""

from collections.abc import Collection

import pytest

from recompose.started import Settings
from service.cli.configured import ServiceConfig
from service.cli.run import run
from service.cli.start import start
from service.schemas.requests import StartRequest
from service.schemas.spec import RunSpec

BODY = frozenset(StartRequest.model_fields)
SAME = {
    "rate": "input",
    "pattern": "input",
    "batch": "batching",
    "batch_bytes": "batching",
    "linger_ms": "batching",
    "duration": "duration_s",
    "in_memory": "source",  # its option in_memory
}
"""Options under another name in the body."""
IN_THE_PATH = {"app"}
OF_THE_CLIENT = {"client", "as_json", "progress", "fail_on_slo"}
OF_THE_SERVICE = {"apps_dirs", "telemetry", "pool", "journals"}
"""Said once for all apps: options of ``recompose serve``."""
FILES_BESIDE = {"out", "out_path", "dead_letters", "dead_letters_path"}
"""Files on the machine of whoever starts it; a service has ``sink`` and ``GET /results``."""
BY_OTHER_REQUESTS = {"compositions": "POST /compositions", "announced": "POST /apps/{app}/announce"}
OF_A_RUN = {"run", "epoch", "started_again", "kept_up"}
"""Its identity, which the service gives."""


def options_of(command: object) -> set[str]:
    return {str(each.name) for each in command.params}  # type: ignore[attr-defined]


def fields_of_a_spec() -> set[str]:
    nested = {"origin", "ending", "durable", "method"}
    inner = {name for topic in nested for name in RunSpec.model_fields[topic].annotation.__annotations__}  # type: ignore[union-attr]
    return RunSpec.model_fields.keys() - nested | inner


@pytest.mark.parametrize(
    ("taken", "elsewhere"),
    [
        (options_of(start), OF_THE_CLIENT),
        (options_of(run), OF_THE_CLIENT | OF_THE_SERVICE | FILES_BESIDE),
        ({"source", "slo", "sink", *Settings.__annotations__}, OF_THE_CLIENT | OF_THE_SERVICE),
        (fields_of_a_spec(), OF_THE_SERVICE | FILES_BESIDE | OF_A_RUN | BY_OTHER_REQUESTS.keys()),
    ],
    ids=["recompose start", "recompose run", "run() of a script", "the spec of a run"],
)
def test_the_body_takes_all_that_others_take(taken: Collection[str], elsewhere: Collection[str]) -> None:
    left = {SAME.get(name, name) for name in set(taken) - IN_THE_PATH - set(elsewhere)}
    assert left - BODY == set()


def test_an_app_of_the_services_file_is_a_start_body() -> None:
    assert ServiceConfig.model_fields["apps"].annotation == dict[str, StartRequest]
