"""Where workers start while a machine may be gone, and which processes may be killed by number."""

import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from compositions.resources import Need
from runtime.placement.cluster import Amounts, Cluster, Node, NodeState
from runtime.pools.limits import Process, pid_space
from runtime.pools.ray.seating import NodeId, Seating

ANY = Need()


def seating(need: Need = ANY, cpus: str = "a=1 b=4 c=2", taken: Mapping[str, float] | None = None) -> Seating:
    """On nodes of so many CPUs, of which others have ``taken`` some; the runner is on node ``a``."""
    nodes = (each.split("=") for each in cpus.split())
    found = tuple(
        Node(name, Amounts(float(has)), Amounts((taken or {}).get(name, 0.0)), address=name) for name, has in nodes
    )
    cluster = Cluster(found, "a")
    made = Seating(lambda: cluster, lambda loads: need, suspect_s=30.0)
    made.note(made.look())
    return made


def choose(made: Seating, count: int, workers_on: Sequence[NodeId], now_s: float) -> tuple[list[NodeId | None], str]:
    return made.choose((), count, [((), node) for node in workers_on], now_s)


def test_on_one_node_ray_may_start_as_many_as_are_asked_for() -> None:
    assert choose(seating(cpus="a=1"), 3, [], 0.0) == ([None] * 3, "")


def test_workers_that_ask_for_nothing_are_on_the_runners_node_first_and_within_the_cpus_of_each() -> None:
    assert choose(seating(cpus="a=2 b=4"), 2, [], 0.0)[0] == ["a", "a"]
    nodes, lacking = choose(seating(), 7, [], 0.0)
    assert (Counter(nodes), lacking) == ({"a": 1, "b": 4, "c": 2}, "")
    assert Counter(choose(seating(), 3, ["a", "b", "b", "c"], 0.0)[0]) == {"b": 2, "c": 1}
    assert Counter(choose(seating(), 7, nodes, 0.0)[0]) == {"a": 1, "b": 4, "c": 2}, "twice as many as CPUs"


def test_workers_that_reserve_are_no_more_than_the_cpus_and_the_rest_is_told_why() -> None:
    """Of node b others have three CPUs; those that the pool has itself are its own."""
    nodes, lacking = choose(seating(Need(cpus=1), taken={"a": 1, "b": 4}), 9, ["a", "b"], 0.0)
    assert Counter(nodes) == {"c": 2}
    assert lacking == ("4 of 11 workers of the app fit: each needs 1 CPU, and the node with the most left has nothing")


@pytest.mark.parametrize("reserved", [0, 1, 2])
def test_workers_of_other_classes_count_before_ray_has_reserved_what_they_need(reserved: int) -> None:
    made = seating(Need(cpus=1), cpus="a=2", taken={"a": reserved})
    nodes, lacking = made.choose(("third",), 1, [(("first",), "a"), (("second",), "a")], 0.0)
    assert nodes == []
    assert lacking.startswith("0 of 1 worker of the app for third fit: each needs 1 CPU")


def test_a_node_that_lost_all_its_workers_gets_none_until_it_is_trusted_again() -> None:
    made = seating()
    made.lost("b", ["a", "c"], 10.0)
    assert choose(made, 1, ["a"], 11.0)[0] == ["c"]
    assert Counter(choose(made, 3, ["a", "c"], 39.0)[0]) == {"c": 2, "a": 1}, "rather than there more than CPUs"
    assert choose(made, 1, ["a", "c", "c"], 40.0)[0] == ["b"]
    made.lost("b", [], 50.0)
    made.joined("b", (), 2.0)
    assert choose(made, 1, ["a", "c", "c"], 51.0)[0] == ["b"], "a worker that joins clears its node"
    made.lost("b", ["a", "b"], 60.0)
    assert choose(made, 1, ["a", "c", "c"], 61.0)[0] == ["b"], "one that is lost among others is no reason"


def left(made: Seating, workers_on: str, now_s: float) -> tuple[list[str], str]:
    """Which of the workers w0, w1 … on these nodes are to leave."""
    return made.leaving({f"w{at}": ((), node) for at, node in enumerate(workers_on)}, now_s)


def test_workers_of_a_node_that_is_to_go_leave_at_once() -> None:
    made = seating()
    nodes = [replace(node, state=NodeState.DRAINING) if node.id == "c" else node for node in made.cluster.nodes]
    made.note(replace(made.cluster, nodes=tuple(nodes)))
    reason = "2 workers leave c, which is to go; others take their place elsewhere"
    assert left(made, "acbc", 0.0) == (["w1", "w3"], reason)


def test_workers_that_share_a_core_move_to_a_node_that_joined_when_staying_has_cost_as_much() -> None:
    """Three workers on one core, and two free ones: they lose two cores, and two starts of 4 s cost eight seconds."""
    made = seating(cpus="a=1")
    made.joined("a", (), 4.0)
    assert left(made, "aaa", 0.0) == ([], "")
    made.note(seating(cpus="a=1 c=2").cluster)
    assert [left(made, "aaa", now_s)[0] for now_s in (10.0, 12.0)] == [[], []]
    moved, reason = left(made, "aaa", 15.0)
    assert moved == ["w0", "w1"]
    assert "from a to c: that gains 1.9 cores" in reason
    assert left(made, "aaa", 16.0) == ([], "")
    assert left(made, "acc", 60.0) == left(made, "acc", 1000.0) == ([], ""), "they are as well placed as they can be"


def test_regret_ends_with_its_cause() -> None:
    made = seating(cpus="a=1 c=2")
    made.joined("a", (), 4.0)
    for on, now_s in (("aaa", 0.0), ("acc", 3.0), ("aaa", 4.0), ("aaa", 6.0)):
        assert left(made, on, now_s) == ([], "")


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def test_a_process_of_our_own_is_killed() -> None:
    with sleeper() as child:
        process = Process(child.pid, pid_space())
        for _ in range(2):
            process.kill()
            assert child.wait() == -9
        for _ in range(2):
            process.forget()


def test_a_number_of_another_container_on_this_host_is_left_alone() -> None:
    with sleeper() as child:
        for space in ("", "another-boot 4026531836", pid_space() + "0"):
            Process(child.pid, space).kill()
        child.communicate(b"\n")
        assert child.returncode == 0


def test_a_process_that_has_ended_is_nobody_else() -> None:
    with sleeper() as child:
        process = Process(child.pid, pid_space())
        child.communicate(b"\n")
    process.kill()
    process.forget()
    Process(child.pid, pid_space()).kill()
    assert child.returncode == 0, "it ended by itself, and nobody was killed in its place"
