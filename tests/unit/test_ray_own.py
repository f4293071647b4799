"""A Ray of our own, its token, folder and what its processes inherit; and when who lost Ray leaves, from facts."""

import logging
import os
import socket
import stat
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from ray._private import node as ray_node
from ray._private import services, worker
from structlog.testing import capture_logs

from runtime.housekeeping import PREFIX
from runtime.placement.cluster import Amounts, Cluster, Node, NodeState
from runtime.pools.ray import own as ray_own
from runtime.pools.ray.guard import AWAY_S, Facts, Verdict, answering
from service.daemon.nodes import NodeBook

WELL = Facts(True)


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
    starts, start_process = {name: getattr(ray_node.Node, name) for name in names}, services.start_ray_process
    with ray_own.environment(heard=heard):
        left_out = {name for name, start in starts.items() if getattr(ray_node.Node, name) is not start}
        assert left_out == {*ray_own.NOT_NEEDED} | (set() if heard else {ray_own.LOG_MONITOR})
        assert ray_node.Node.start_api_server(None, include_dashboard=False, raise_on_failure=False) is None
        assert services.start_ray_process is not start_process
    assert {name: getattr(ray_node.Node, name) for name in names} == starts
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


def test_a_head_that_is_away_is_given_up_after_a_while_and_not_when_it_comes_back_before() -> None:
    verdict = Verdict("10.0.0.1:6379")
    for again in range(3):
        began_s = again * 1000.0
        assert verdict.of(Facts(False), began_s) is None
        assert verdict.of(Facts(False), began_s + AWAY_S - 1) is None
        assert verdict.of(WELL, began_s + AWAY_S) is None
    assert verdict.of(Facts(False), 5000.0) is None
    assert verdict.of(Facts(False), 5000.0 + AWAY_S) == "Ray's head at 10.0.0.1:6379 has not answered for 45 s"


def test_a_head_of_another_cluster_and_a_raylet_that_ended_are_not_waited_for() -> None:
    assert "was started anew" in str(Verdict("h:1").of(Facts(True, same_cluster=False), 0.0))
    assert Verdict("h:1").of(Facts(False, raylet_lives=False), 0.0) == "Ray's raylet on this machine has ended"


def test_who_was_replaced_leaves_when_it_can_know() -> None:
    verdict = Verdict("h:1")
    assert verdict.of(Facts(False, replaced=True), 0.0) is None
    assert "another runner took its place" in str(verdict.of(Facts(True, replaced=True), 1.0))


def test_who_takes_a_connection_answers_and_nobody_else() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as there, closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        addresses = {"there": there.getsockname(), "refuses": bound.getsockname(), "away": ("192.0.2.1", 9)}
        addresses["nameless"] = ("no-such-host.invalid", 9)
        assert answering(addresses, timeout_s=0.3) == {"there"}
    assert answering({}) == set()


@pytest.mark.usefixtures("talkative")
def test_a_machine_that_is_lost_is_a_line_at_warning() -> None:
    book = NodeBook()
    near, far = (Node(name, Amounts(2), address=f"10.0.0.{name[1]}") for name in ("n1", "n2"))
    with capture_logs() as logs:
        for at, seen in enumerate([(near, far), (near,), (near, replace(far, state=NodeState.DRAINING)), (near,)]):
            known = book.note(Cluster(seen), float(at))
    (lost,) = (line for line in logs if line["log_level"] == "warning")
    assert (lost["event"], lost["node"]) == ("machine lost", "10.0.0.2")
    assert "other machines" in lost["consequence"]
    assert [line["event"] for line in logs] == ["machine lost", "machine is being drained", "machine left the cluster"]
    assert [(each.node.id, each.node.state) for each in known] == [("n1", NodeState.UP), ("n2", NodeState.LOST)]
    book.note(Cluster((near,)), 4000.0)
    assert [each.node.id for each in book.note(Cluster((near,)), 4001.0)] == ["n1"], "forgotten after an hour"
