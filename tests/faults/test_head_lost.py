"""Ray's head ends under a service that joined it, and another one begins in its place: real processes."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from lab.benchmarks.daemon import Daemon, daemon, free_port
from runtime.pools.ray.guard import LOST_RAY

PATIENCE_S = 90.0
START = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--num-cpus=1", "--include-dashboard=false"]


class Head:
    """A cluster on this machine, with all its files in a folder."""

    def __init__(self, folder: str) -> None:
        self.folder, self.port = folder, free_port()

    def start(self) -> None:
        line = [*START, f"--port={self.port}", "--object-store-memory=100000000"]
        subprocess.run(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)

    def kill(self) -> None:
        """With all that it started."""
        for process in psutil.process_iter(["cmdline"]):
            if process.pid != os.getpid() and self.folder in " ".join(process.info["cmdline"] or []):
                with suppress(psutil.NoSuchProcess):
                    process.kill()


@pytest.fixture
def head(monkeypatch: pytest.MonkeyPatch) -> Iterator[Head]:
    with tempfile.TemporaryDirectory(prefix="rc", ignore_cleanup_errors=True) as folder:  # short: sockets are in it
        for name, value in (("AUTH_MODE", "disabled"), ("USAGE_STATS_ENABLED", "0"), ("TMPDIR", folder)):
            monkeypatch.setenv(f"RAY_{name}", value)
        monkeypatch.setenv("TMPDIR", folder)
        made = Head(folder)
        made.start()
        yield made
        made.kill()


def delivered(up: Daemon) -> int:
    return int(up.status("synthetic")["items"]["delivered"])


def misses_ray(up: Daemon) -> bool:
    return "Ray does not answer" in up.http.get("/readyz").json().get("detail", "")


@pytest.mark.long  # for every change: tests/unit/test_ray_own.py
@pytest.mark.timeout(5 * PATIENCE_S)  # as each wait has its own end
def test_a_service_whose_head_was_replaced_says_so_and_goes_on_when_started_again(head: Head, tmp_path: Path) -> None:
    with daemon(tmp_path, "--ray", f"127.0.0.1:{head.port}") as up:
        how = {"input": {"rate_per_s": 20}, "durability": "exactly-once", "options": {"compute": "wait"}}
        up.send("POST", "/apps/synthetic/start", how)
        up.wait_for(lambda: delivered(up) > 20, PATIENCE_S, "results")
        before = up.status("synthetic")
        head.kill()
        up.wait_for(lambda: misses_ray(up), PATIENCE_S, "the service to miss its Ray")
        head.start()
        assert up.process.wait(PATIENCE_S) == LOST_RAY, up.log()[-4000:]
        up.start()
        up.wait_for(lambda: delivered(up) > before["items"]["delivered"] + 20, PATIENCE_S, "more results")
        after = up.status("synthetic")
        assert after["run"] == before["run"]
        assert after["epoch"] > before["epoch"], "each attempt has its own, also one that met no head"
        rows = up.get("/results/synthetic", limit=1000)
        assert [row["serial"] for row in rows] == [row["value"]["item"] for row in rows] == [*range(len(rows))] != []
        assert not psutil.pid_exists(before["runner"]["pid"])
    log = up.log()
    assert "was started anew and does not know this process" in log
    assert "SIGABRT" not in log
    assert "*** " not in log
