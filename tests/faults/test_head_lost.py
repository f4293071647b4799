"""Ray's head ends under a service that joined it, and another one begins in its place: real processes."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from runtime.pools.ray.guard import LOST_RAY

PATIENCE_S = 90.0
RAY = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--num-cpus=1", "--include-dashboard=false"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


class Cluster:
    """A head on this machine, and a service that joins it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.at = folder, free_port(), free_port()
        self.environment = {
            **{**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"},
            **{"RAY_TMPDIR": str(folder), "TMPDIR": str(folder)},
        }

    def start_head(self) -> None:
        line = [*RAY, f"--port={self.port}", "--object-store-memory=100000000"]
        subprocess.run(line, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)

    def kill_head(self) -> None:
        """With all that it started."""
        for process in psutil.process_iter(["cmdline"]):
            line = " ".join(process.info["cmdline"] or [])
            if process.pid != os.getpid() and str(self.folder) in line and "recompose serve" not in line:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()

    def serve(self) -> subprocess.Popen[bytes]:
        line = [str(Path(sys.executable).parent / "recompose"), "serve", "--port", str(self.at)]
        line += ["--state", str(self.folder / "state"), "--ray", f"127.0.0.1:{self.port}"]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(line, env=self.environment, stdout=log, stderr=log)

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.at, timeout=30)
        with contextlib.closing(connection):
            text = None if body is None else json.dumps(body)
            connection.request(method, path, body=text, headers={"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def delivered(self) -> int:
        return int(self.call("GET", "/status/synthetic")[1]["items"]["delivered"])


def wait_until(what: Callable[[], Any]) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(OSError):
            if what():
                return
        assert time.monotonic() < give_up_s, "it did not come"
        time.sleep(0.2)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="rc", ignore_cleanup_errors=True) as folder:  # short: sockets are in it
        made = Cluster(Path(folder))
        made.start_head()
        yield made
        made.kill_head()


@pytest.mark.timeout(5 * PATIENCE_S)  # as each wait has its own end
def test_a_service_whose_head_was_replaced_leaves_with_a_sentence_and_goes_on_when_it_is_started_again(
    cluster: Cluster,
) -> None:
    service = cluster.serve()
    try:
        wait_until(lambda: cluster.call("GET", "/readyz")[0] == 200)
        how = {"input": {"rate_per_s": 20}, "durability": "exactly-once", "options": {"compute": "wait"}}
        assert cluster.call("POST", "/apps/synthetic/start", how)[0] == 200
        wait_until(lambda: cluster.delivered() > 20)
        before = cluster.call("GET", "/status/synthetic")[1]
        cluster.kill_head()
        wait_until(lambda: "Ray does not answer" in cluster.call("GET", "/readyz")[1].get("detail", ""))
        cluster.start_head()
        code = service.wait(PATIENCE_S)
        assert code == LOST_RAY, (cluster.folder / "log").read_text()[-4000:]
        service = cluster.serve()
        wait_until(lambda: cluster.call("GET", "/readyz")[0] == 200)
        wait_until(lambda: cluster.delivered() > before["items"]["delivered"] + 20)
        after = cluster.call("GET", "/status/synthetic")[1]
        assert after["run"] == before["run"]
        assert after["epoch"] > before["epoch"], "each attempt has its own, also one that met no head"
        rows = cluster.call("GET", "/results/synthetic?limit=1000")[1]
        assert [row["serial"] for row in rows] == [row["value"]["item"] for row in rows] == [*range(len(rows))] != []
        assert not psutil.pid_exists(before["runner"]["pid"])
    finally:
        service.send_signal(signal.SIGTERM)
        service.wait(PATIENCE_S)
        print((cluster.folder / "log").read_text())
    log = (cluster.folder / "log").read_text()
    assert "was started anew and does not know this process" in log
    assert "SIGABRT" not in log
    assert "*** " not in log
