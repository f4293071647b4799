"""Look at what a real daemon opens on this machine, and what it leaves, as ``ss -ltnp`` and ``ls`` would show it."""

import ipaddress
import re
import stat
import tempfile
from pathlib import Path

import psutil
import pytest

from lab.benchmarks.daemon import Daemon, daemon
from runtime.housekeeping import PREFIX

TOKEN = "not for workers"
APP = """
import os
from apps.contract import App
from compositions.model import Stage

class Looks(App):
    name = "looks"
    stages = (Stage("look"),)

    def items(self, path):
        return iter(range(10))

    def look(self, value):
        return {"names": sorted(os.environ), "mode": os.environ.get("RAY_AUTH_MODE")}
"""


def test_what_a_daemon_opens_is_for_this_user_here_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOMPOSE_TOKEN", TOKEN)
    (tmp_path / "looks.py").write_text(APP)
    with tempfile.TemporaryDirectory() as short:  # a socket's path has 107 bytes at most
        monkeypatch.setenv("RAY_TMPDIR", short)
        with daemon(tmp_path, "--apps", str(tmp_path)) as up:
            up.send("POST", "/apps/looks/start", {"input": {"rate_per_s": 20}})
            up.wait_for(lambda: up.status("looks")["items"]["delivered"] >= 5, 60, "results")
            the_folder_of_its_ray_is_private(up, Path(short))
            ray_runs_neither_its_autoscaler_nor_its_dashboard_nor_agents(up)
            nothing_listens_beyond_loopback(up)
            the_token_reaches_neither_ray_nor_workers(up)
            ray_asks_for_a_token_that_only_this_user_can_read(up)
        assert list(Path(short).iterdir()) == [], "the folder goes with its Ray"


def the_folder_of_its_ray_is_private(up: Daemon, short: Path) -> None:
    (folder,) = short.iterdir()
    assert folder.name.startswith(f"{PREFIX}{up.process.pid}-")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def family(up: Daemon) -> list[psutil.Process]:
    """The daemon and all that it started: Ray's own processes, the runner, its workers."""
    daemon = psutil.Process(up.process.pid)
    return [daemon, *daemon.children(recursive=True)]


def ray_runs_neither_its_autoscaler_nor_its_dashboard_nor_agents(served: Daemon) -> None:
    commands = [" ".join(process.cmdline()) for process in family(served)]
    assert any("raylet" in command for command in commands)
    assert [each for each in commands if re.search(r"/(dashboard|monitor)\.py|ray::\w+Agent", each)] == []


def is_loopback(address: str) -> bool:
    found = ipaddress.ip_address(address)
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


def nothing_listens_beyond_loopback(served: Daemon) -> None:
    listening = [
        (process.name(), each.laddr.ip, each.laddr.port)
        for process in family(served)
        for each in process.net_connections("inet")
        if each.status == psutil.CONN_LISTEN or (each.status == psutil.CONN_NONE and not each.raddr)
    ]
    assert {served.port} < {port for _, _, port in listening}, "Ray's own ports are among them"
    assert [each for each in listening if not is_loopback(each[1])] == []


def the_token_reaches_neither_ray_nor_workers(served: Daemon) -> None:
    seen = {name for result in served.results("looks") for name in result["value"]["names"]}
    assert "PATH" in seen
    assert "RECOMPOSE_TOKEN" not in seen
    readable = [process for process in family(served)[1:] if not process.name().startswith("ray::")]
    assert readable, "those that are called ray::… have overwritten what they were started with"
    assert [process.name() for process in readable if "RECOMPOSE_TOKEN" in process.environ()] == []


def ray_asks_for_a_token_that_only_this_user_can_read(served: Daemon) -> None:
    assert {result["value"]["mode"] for result in served.results("looks")} == {"token"}
    kept = Path.home() / ".ray" / "auth_token"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
