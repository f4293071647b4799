"""Placement, case by case: where workers go, also while a machine may be gone, and which processes may be killed."""

import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest

from compositions.errors import RecomposeError
from compositions.model import Stage
from compositions.resources import Need, need_of, size_bytes
from runtime.placement.cluster import Amounts, Cluster, CpuReport, Node, NodeState, cores_of
from runtime.placement.place import Shape, place
from runtime.placement.rebalance import FAR, moves
from runtime.pools.limits import Process, pid_space
from runtime.pools.ray.seating import NodeId, Seating

GB = 10**9
LEFT = "1 CPU and 4 GB of memory"
THREE = Cluster((Node("a", Amounts(1)), Node("b", Amounts(4)), Node("c", Amounts(2))), near="c")
ANY = Need()


def test_the_cores_of_a_cluster_are_the_sum_over_its_open_nodes() -> None:
    assert THREE.cores == 7
    lost = Node("d", Amounts(8), state=NodeState.LOST)
    drained = Node("e", Amounts(8), state=NodeState.DRAINING)
    assert Cluster((*THREE.nodes, lost, drained, Node("f", Amounts(0.5)))).cores == 7.5


@pytest.mark.parametrize(
    ("declared", "seen", "cores"),
    [
        (4, None, 4),  # nobody on the node was asked yet
        (4, CpuReport(2, 2, None), 4),  # an operator's word
        (64, CpuReport(64, 2, None), 2),  # Ray counted the machine; its processes may use two of them
        (64, CpuReport(64, 64, 2.0), 2),  # a container's limit
        (1, CpuReport(2, 2, 0.5), 0.5),  # Ray has no fractions
        (4, CpuReport(2, 2, 0.5), 0.5),  # no word makes a quota larger
    ],
)
def test_cores_of_a_node(declared: float, seen: CpuReport | None, cores: float) -> None:
    assert cores_of(declared, seen) == cores


def test_workers_that_reserve_nothing_take_no_room_from_those_that_do() -> None:
    shapes = [Shape("free", Need(), 7), Shape("firm", Need(cpus=1), 7)]
    found = place(THREE, shapes, {"free": {"b": 7}})
    assert found.lacking == {}
    assert found.seats["free"] == {"b": 7}
    assert sum(found.seats["firm"].values()) == 7


def test_four_quarters_share_a_gpu_and_a_fifth_finds_none() -> None:
    cluster = Cluster((Node("cpu", Amounts(8)), Node("gpu", Amounts(8, 1))), near="cpu")
    detect = Shape("detect", Need(cpus=1, gpus=0.25), 4)
    assert place(cluster, [detect], {}).seats["detect"] == {"gpu": 4}
    assert place(cluster, [replace(detect, count=5)], {}).reasons == (
        "4 of 5 workers of detect fit: each needs 1 CPU and 0.25 GPU, and the node with the most left has 8 CPUs, "
        "but no GPU",
    )


def test_a_worker_moves_where_another_finds_no_place_otherwise() -> None:
    cluster = Cluster((Node("gpu", Amounts(2, 1)), Node("cpu", Amounts(2))))
    shapes = [Shape("light", Need(cpus=2), 1), Shape("heavy", Need(cpus=1, gpus=1), 1)]
    before = {"light": {"gpu": 1}}
    assert place(cluster, shapes, before).started(before) == {"light": {"cpu": 1}, "heavy": {"gpu": 1}}


def test_a_draining_node_gets_no_worker_and_a_suspect_one_only_the_last() -> None:
    draining = Node("a", Amounts(4), state=NodeState.DRAINING)
    suspect = Node("b", Amounts(4), state=NodeState.SUSPECT)
    cluster = Cluster((draining, suspect, Node("c", Amounts(1))), near="b")
    found = place(cluster, [Shape("app", Need(cpus=1), 2)], {"app": {"a": 2}})
    assert found.seats["app"] == {"c": 1, "b": 1}


def test_workers_move_to_free_cores_and_to_the_near_node_but_not_for_nothing() -> None:
    free, firm = Shape("free", Need(), 4), Shape("firm", Need(cpus=2), 1)
    found = moves(THREE, [free], {"free": {"a": 4}})
    assert [(each.source, each.target) for each in found] == [("a", "c"), ("a", "c"), ("a", "b")]
    assert moves(THREE, [free], {"free": {"c": 2, "b": 2}}) == [], "the near node is full"
    (near,) = moves(THREE, [firm], {"firm": {"b": 1}})
    assert (near.target, near.gain) == ("c", FAR)
    assert moves(THREE, [free, firm], {"firm": {"b": 1}, "free": {"c": 1}}) == [], "there is one core, and it needs two"
    assert moves(THREE, [Shape("free", Need(), 21)], {"free": {"a": 3, "b": 12, "c": 6}}) == [], "none is free"


def test_workers_do_not_move_to_where_they_may_not_be() -> None:
    suspect, in_x = Node("b", Amounts(4), state=NodeState.SUSPECT), Node("c", Amounts(4, 1), labels={"zone": "x"})
    nodes = (Node("a", Amounts(1)), suspect, in_x)
    labelled = Shape("app", Need(gpus=0.5, labels={"zone": "x"}), 3)
    assert moves(Cluster(nodes[:2], "a"), [Shape("app", Need(), 3)], {"app": {"a": 3}}) == []
    assert moves(Cluster(nodes, "a"), [labelled], {"app": {"c": 2}}) == []


def test_no_move_is_worth_another_one_after_it() -> None:
    """Whatever the cluster, after the moves there are none left, and no node has more workers than before and cores."""
    draw = Random(7)
    for _ in range(200):
        nodes = tuple(Node(f"n{at}", Amounts(draw.randint(1, 8))) for at in range(draw.randint(2, 6)))
        cluster, present = Cluster(nodes, "n0"), {"app": {node.id: draw.randint(0, 3) for node in nodes}}
        shape = Shape("app", Need(), sum(present["app"].values()))
        after = Counter(present["app"])
        for each in moves(cluster, [shape], present):
            after[each.source] -= 1
            after[each.target] += 1
        assert moves(cluster, [shape], {"app": after}) == []
        assert all(after[node.id] <= max(present["app"][node.id], node.has.cpus) for node in nodes)


def test_reasons_name_labels_and_amounts() -> None:
    cluster = Cluster((Node("a", Amounts(2, memory_bytes=4 * GB, custom={"decoder": 1}), labels={"zone": "a"}),))
    shapes = [
        Shape("far", Need(cpus=1, labels={"zone": "b"}), 1),
        Shape("big", Need(cpus=1, memory_bytes=8 * GB), 2),
        Shape("coded", Need(custom={"decoder": 1.0}), 2),
    ]
    assert place(cluster, shapes, {}).reasons == (
        "0 of 1 worker of far fit: there is no node with zone=b",
        "0 of 2 workers of big fit: each needs 1 CPU and 8 GB of memory, and the node with the most left has " + LEFT,
        "1 of 2 workers of coded fit: each needs 1 decoder, and the node with the most left has " + LEFT,
    )


def test_a_worker_needs_the_sum_of_memory_and_the_most_of_what_is_used_in_turns() -> None:
    stages = (
        Stage("decode", cpus=1, custom={"decoder": 1}),
        Stage("detect", gpus=0.25, memory="2GB"),
        Stage("track", cpus=0.5, gpus=0.5, memory="512MiB", custom={"zone": "a"}),
    )
    need = need_of(stages)
    assert need == Need(1, 0.5, 2 * GB + 2**29, {"decoder": 1}, {"zone": "a"})
    assert str(need) == "1 CPU, 0.5 GPU, 2.537 GB of memory and 1 decoder on a node with zone=a"
    assert need.is_declared
    assert not need_of((Stage("a"), Stage("b"))).is_declared


@pytest.mark.parametrize(
    ("text", "size"), [("2GB", 2 * GB), ("2 GiB", 2**31), ("1.5kB", 1500), ("1KB", 1000), ("7", 7), (0, 0)]
)
def test_sizes(text: str | int, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize("wrong", ["", "2 apples", "-1", -1, True, "1e9", "9999999TB", None])
def test_what_is_no_size_is_refused(wrong: object) -> None:
    with pytest.raises(RecomposeError, match="must be a number of bytes, or a text such as '2GB' or '512MiB'"):
        size_bytes(wrong)  # type: ignore[arg-type]


def seating(need: Need = ANY, cpus: str = "a=1 b=4 c=2", taken: Mapping[str, float] | None = None) -> Seating:
    """On nodes of so many CPUs, of which others have ``taken`` some; the runner is on node ``a``."""
    nodes = (each.split("=") for each in cpus.split())
    of_others = {name: Amounts(cpus) for name, cpus in (taken or {}).items()}
    found = (Node(name, Amounts(float(has)), of_others.get(name, Amounts()), address=name) for name, has in nodes)
    cluster = Cluster(tuple(found), "a")
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


@pytest.mark.parametrize(("cpus", "could"), [(4, True), (5, False)])
def test_what_others_have_taken_may_come_free(cpus: float, could: bool) -> None:
    assert seating(Need(cpus=cpus), taken={"b": 4}).could_hold(()) is could


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
    reason = "2 workers leave c, which is to go; replacements start elsewhere"
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
    assert "from a to c: this gains 1.9 cores" in reason
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
