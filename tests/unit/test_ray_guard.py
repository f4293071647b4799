"""When a process that Ray is lost to leaves: from facts, no Ray."""

import socket
from contextlib import closing
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from runtime.placement.cluster import Amounts, Cluster, Node, NodeState
from runtime.pools.ray.guard import AWAY_S, Facts, Verdict, answering
from service.daemon.nodes import NodeBook

WELL = Facts(True)


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
    assert [line["event"] for line in logs] == ["machine lost", "machine drains", "machine left"]
    assert [(each.node.id, each.node.state) for each in known] == [("n1", NodeState.UP), ("n2", NodeState.LOST)]
    book.note(Cluster((near,)), 4000.0)
    assert [each.node.id for each in book.note(Cluster((near,)), 4001.0)] == ["n1"], "forgotten after an hour"
