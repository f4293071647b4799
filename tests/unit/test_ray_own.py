"""What belongs to a Ray of our own: its token, its folder, and what its processes inherit."""

import logging
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from ray._private import services, worker
from ray._private.node import Node

from runtime.housekeeping import PREFIX
from runtime.pools.ray import own as ray_own


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_token_is_for_this_user_only_and_stays(tmp_path: Path) -> None:
    ray_own.guard_token(tmp_path, {})
    kept = tmp_path / ".ray" / "auth_token"
    assert (mode(kept), mode(kept.parent)) == (0o600, 0o700)
    assert len(token := kept.read_text()) == 64
    kept.chmod(0o644)
    ray_own.guard_token(tmp_path, {})
    assert (kept.read_text(), mode(kept)) == (token, 0o600)


def test_what_ray_inherits_and_that_we_get_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOMPOSE_TOKEN", "secret")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with ray_own.environment(heard=True):
        assert "RECOMPOSE_TOKEN" not in os.environ
        assert "RAY_AUTH_MODE" not in os.environ
        assert os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "0"
    assert os.environ["RECOMPOSE_TOKEN"] == "secret"
    assert "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER" not in os.environ


@pytest.mark.parametrize("heard", [True, False])
def test_ray_starts_only_what_is_used_of_it_and_elsewhere_all_of_it(heard: bool) -> None:
    names = (*ray_own.NOT_NEEDED, ray_own.LOG_MONITOR)
    starts, start_process = {name: getattr(Node, name) for name in names}, services.start_ray_process
    with ray_own.environment(heard=heard):
        left_out = {name for name, start in starts.items() if getattr(Node, name) is not start}
        assert left_out == {*ray_own.NOT_NEEDED} | (set() if heard else {ray_own.LOG_MONITOR})
        assert Node.start_api_server(None, include_dashboard=False, raise_on_failure=False) is None
        assert services.start_ray_process is not start_process
    assert {name: getattr(Node, name) for name in names} == starts
    assert services.start_ray_process is start_process


def test_a_raylet_gets_placeholders_for_its_agents_and_finds_their_ports_written(tmp_path, monkeypatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(services, "start_ray_process", lambda command, *_, **__: started.append(command))
    node = "ab" * 28
    agents = ["--dashboard_agent_command=python agent.py --grpc-port=1", "--runtime_env_agent_command=python main.py"]
    raylet = ["raylet", f"--session_dir={tmp_path}", f"--node_id={node}", *agents, "--head"]
    with ray_own.environment(heard=True):
        services.start_ray_process(raylet, "raylet", fate_share=True)
        services.start_ray_process(["gcs_server", agents[0]], "gcs_server")
    replaced = ["--dashboard_agent_command=cat", "--runtime_env_agent_command=cat"]
    assert started == [[*raylet[:3], *replaced, "--head"], ["gcs_server", agents[0]]]
    assert [file.read_text() for file in tmp_path.iterdir()] == ["-1"] * len(ray_own.AGENTS_PORTS)


def test_folders_of_processes_that_are_gone_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = tmp_path / f"{PREFIX}{gone.pid}-abc"
    others = [tmp_path / f"{PREFIX}{os.getppid()}-abc", tmp_path / f"{PREFIX}demo-abc"]
    for folder in (left, *others):
        (folder / "ray").mkdir(parents=True)
    own = ray_own.make_folder()
    assert mode(own.parent) == 0o700
    assert sorted(tmp_path.iterdir()) == sorted([own.parent, *others])
    ray_own.remove_folder(own)
    assert sorted(tmp_path.iterdir()) == sorted(others)


def test_messages_of_ray_itself_are_no_lines_between_those_of_the_log(capsys, caplog) -> None:
    """Ray's listener of errors calls this with what a raylet reports of a worker that was killed."""
    message = {"lines": ["A worker died or was killed while executing a task"], "pid": "raylet", "is_err": False}
    with caplog.at_level(logging.DEBUG):
        ray_own.listen(lambda who, line: None)
        try:
            worker.print_to_stdstream(message, ignore_prefix=False)
        finally:
            ray_own.forget()
    assert capsys.readouterr() == ("", "")
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == ("DEBUG", f"raylet: {message['lines'][0]}")
