"""A stage in an endless loop in a worker: a stop with a limit ends it, and one that is forced ends it at once."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from structlog.testing import capture_logs

from apps import registry
from service.daemon.daemon import Daemon
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.ray_host import RayHost
from service.runner.rpc.requests import Stop
from service.schemas.requests import StartRequest
from service.schemas.spec import RunSpec
from tests.support.waiting import eventually

PATIENCE_S = 90.0
APP = """
from recompose import App, Stage


class Loops(App):
    name = "loops"
    stages = (Stage("turn"),)

    def items(self, path):
        return iter(range(10))

    def turn(self, value):
        while value:
            pass
        return value
"""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    (tmp_path / "loops.py").write_text(APP)
    base = RunSpec(app="", apps_dirs=(str(tmp_path),), journals=str(tmp_path / "journals"))
    host = RayHost()
    made = Daemon(registry.discover([tmp_path]), host, DaemonStore(None), base)
    made.restore()
    with capture_logs():
        yield made
        made.close(drain=False)
        host.close()


def looping(daemon: Daemon) -> tuple[Any, list[int]]:
    """Its status when the loop has begun, and the processes of its workers."""
    daemon.apps.start(StartRequest(settings={"spares": 1}).spec("loops"))
    status = eventually(
        lambda: daemon.observation.status("loops"), lambda seen: seen.in_flight and len(seen.workers) > 1, PATIENCE_S
    )
    return status, [each.pid for each in status.workers]


@pytest.mark.parametrize(
    ("how", "limit_s"),
    [(Stop(timeout_s=3.0), 3.0), pytest.param(Stop(drain=False, timeout_s=0.0), 0.0, marks=pytest.mark.long)],
)
def test_a_stage_in_an_endless_loop_is_ended_within_the_limit_and_two_seconds(
    daemon: Daemon, how: Stop, limit_s: float
) -> None:
    before, workers = looping(daemon)
    began_s = time.monotonic()
    stopped = daemon.apps.stop("loops", how)
    took_s = time.monotonic() - began_s
    assert took_s <= limit_s + 2.0
    assert stopped.state in ("stopped", "failed")
    psutil.wait_procs([psutil.Process(pid) for pid in workers if psutil.pid_exists(pid)], timeout=10.0)
    assert [pid for pid in (*workers, before.runner_pid) if psutil.pid_exists(pid)] == []
