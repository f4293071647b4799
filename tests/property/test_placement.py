"""Laws of placement: never more than a node has, near the optimum of a solver, and few workers move."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import lil_matrix

from lab.benchmarks.placing import a_cluster, some_shapes
from runtime.placement.cluster import Amounts, Cluster, NodeState
from runtime.placement.place import Placement, Seats, Shape, place
from tests.support.examples import examples

GB = 10**9
Problem = tuple[Cluster, list[Shape]]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Clusters of 2 to 100 nodes, in several states, of which others have taken some; shapes of which some reserve no
    CPU."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    cluster = a_cluster(rng, draw(st.sampled_from((2, 3, 4, 5, 6, 8, 12, 40))))
    shapes = some_shapes(rng, cluster, draw(st.sampled_from((2, 20, 100))))
    shapes = [replace(each, need=replace(each.need, cpus=rng.choice((None, each.need.cpus)))) for each in shapes]
    states = (NodeState.UP, NodeState.UP, NodeState.UP, NodeState.SUSPECT, NodeState.DRAINING, NodeState.LOST)
    nodes = []
    for node in cluster.nodes:
        taken = Amounts(rng.choice((0, 0, 0.5)), rng.choice((0, 0, 0.5)) if node.has.gpus else 0)
        nodes.append(replace(node, state=rng.choice(states), taken=taken))
    near = rng.choice([None, *(node.id for node in nodes)])
    return Cluster(tuple(nodes), near), shapes


def overruns(cluster: Cluster, shapes: Sequence[Shape], found: Placement) -> list[str]:
    """Return what is wrong with a placement: nodes with more workers than they have resources for."""
    faults = []
    needs = {shape.name: shape.need for shape in shapes}
    for node in cluster.nodes:
        on = {name: seats[node.id] for name, seats in found.seats.items() if seats.get(node.id)}
        if on and not node.is_open:
            faults.append(f"{node.id} is {node.state} and has {on}")
        if any(node.labels.get(k) != v for name in on for k, v in needs[name].labels.items()):
            faults.append(f"{node.id} lacks a label")
        taken = Counter[str]()
        for name, count in on.items():
            need = needs[name]
            for what, value in (("cpus", need.cpus or 0), ("gpus", need.gpus), ("memory", need.memory_bytes / GB)):
                taken[what] += round(value * count * 10_000)
            taken["decoder"] += round(need.custom.get("decoder", 0) * count * 10_000)
        has, by = node.has, node.taken
        room = {"cpus": has.cpus - by.cpus, "gpus": has.gpus - by.gpus, "memory": has.memory_bytes / GB}
        room["decoder"] = has.custom.get("decoder", 0)
        faults += [f"{node.id}: {what}" for what, value in taken.items() if value > round(room[what] * 10_000)]
        whole = sum(int(needs[name].gpus) * count for name, count in on.items() if needs[name].gpus >= 1)
        if not _fit([needs[name].gpus for name, n in on.items() for _ in range(n)], int(has.gpus) - whole, by.gpus):
            faults.append(f"{node.id}: shares of GPUs do not fit on its devices")
    return faults


def _fit(shares: Sequence[float], devices: int, taken: float) -> bool:
    """Return whether no more devices are needed than a bound that any packing keeps: two shares above one half never
    share a device."""
    parts = [*(share for share in shares if share < 1), *([taken] if 0 < taken < 1 else [])]
    return sum(part > 0.5 for part in parts) <= devices and sum(parts) <= devices + 1e-6


@given(problems(), st.data())
def test_no_node_has_more_workers_than_it_has_resources_for(problem: Problem, data: st.DataObject) -> None:
    cluster, shapes = problem
    found = place(cluster, shapes, {})
    assert overruns(cluster, shapes, found) == []
    for shape in shapes:
        assert sum(found.seats[shape.name].values()) + found.lacking.get(shape.name, 0) == shape.count
    assert len(found.reasons) == len(found.lacking)
    fewer = [replace(shape, count=data.draw(st.integers(0, shape.count))) for shape in shapes]
    states = [data.draw(st.sampled_from((node.state, NodeState.DRAINING))) for node in cluster.nodes[:3]]
    nodes = (*map(lambda node, state: replace(node, state=state), cluster.nodes[:3], states), *cluster.nodes[3:])
    later = Cluster(nodes, cluster.near)
    assert overruns(later, fewer, place(later, fewer, found.seats)) == []


@examples(200)
@given(problems())
def test_workers_that_are_there_stay_where_they_are(problem: Problem) -> None:
    cluster, shapes = problem
    before = place(cluster, shapes, {})
    after = place(cluster, shapes, before.seats)
    if not before.lacking:
        assert not any(after.started(before.seats).values())
        assert not any(before.started(after.seats).values())


@examples(300)
@given(st.integers(0, 2**32), st.integers(1, 20))
def test_what_fits_on_the_runners_node_is_there(seed: int, count: int) -> None:
    rng = random.Random(seed)
    cluster = a_cluster(rng, 8)
    shapes = some_shapes(rng, cluster, count)
    near = rng.choice(cluster.nodes)
    alone = place(Cluster((near,), near.id), shapes, {})
    if not alone.lacking:
        assert place(replace(cluster, near=near.id), shapes, {}).seats == alone.seats


def test_an_app_can_be_as_large_as_a_solver_finds_within_5_percent() -> None:
    """The size of an app is how many times its shapes fit: its throughput is in proportion."""
    found, best = [], []
    for seed in range(200):
        rng = random.Random(seed)
        cluster = a_cluster(rng, rng.choice((2, 3, 4, 6, 8, 12)))
        shapes = some_shapes(rng, cluster, 3)
        if (optimum := largest(cluster, shapes)) > 0:
            best.append(optimum)
            found.append(_largest_found(cluster, shapes, optimum))
    ratios = np.array(found) / np.array(best)
    print(f"{len(best)} clusters: mean {ratios.mean():.4f}, least {ratios.min():.3f}")
    assert len(best) >= 60
    assert ratios.max() <= 1.0
    assert ratios.min() >= 0.95


def _largest_found(cluster: Cluster, shapes: Sequence[Shape], optimum: int) -> int:
    """Return how many times the shapes are placed."""
    times = (count for count in range(optimum + 1, 0, -1) if not place(cluster, _times(shapes, count), {}).lacking)
    return next(times, 0)


def _times(shapes: Sequence[Shape], count: int) -> list[Shape]:
    return [replace(shape, count=shape.count * count) for shape in shapes]


def largest(cluster: Cluster, shapes: Sequence[Shape]) -> int:
    """Return how many times the shapes fit, by integer programming: a variable for the workers of each shape on each
    node, or on each of its devices; one for each device that whole shares use; and the number sought."""
    columns = [
        (shape, node, device)
        for shape in shapes
        for node in cluster.nodes
        for device in (range(int(node.has.gpus)) if 0 < shape.need.gpus < 1 else (None,))
        if all(node.labels.get(name) == value for name, value in shape.need.labels.items())
    ]
    devices = [(node.id, device) for node in cluster.nodes for device in range(int(node.has.gpus))]
    whole = {each: len(columns) + at for at, each in enumerate(devices)}
    times = len(columns) + len(devices)
    rows: list[tuple[dict[int, float], float]] = []
    for node in cluster.nodes:
        here = [(at, shape.need, device) for at, (shape, on, device) in enumerate(columns) if on is node]
        rows.append(({at: need.cpus or 0 for at, need, _ in here}, node.has.cpus))
        rows.append(({at: need.memory_bytes / GB for at, need, _ in here}, node.has.memory_bytes / GB))
        rows.append(({at: need.custom.get("decoder", 0) for at, need, _ in here}, node.has.custom.get("decoder", 0)))
        own = [device for of, device in devices if of == node.id]
        alone = {at: need.gpus for at, need, device in here if device is None}
        rows.append((alone | {whole[node.id, device]: -1 for device in own}, 0))
        for index in own:
            shares = {at: need.gpus for at, need, device in here if device == index}
            rows.append((shares | {whole[node.id, index]: 1}, 1))
    for shape in shapes:
        own_columns = {at: -1.0 for at, each in enumerate(columns) if each[0] is shape}
        rows += [(own_columns | {times: shape.count}, 0)]
    matrix = lil_matrix((len(rows), times + 1))
    for row, (values, _) in enumerate(rows):
        for column, value in values.items():
            matrix[row, column] = value
    most = np.full(times + 1, np.inf)
    most[len(columns) : times] = 1
    goal = np.zeros(times + 1)
    goal[times] = -1
    limits = LinearConstraint(matrix.tocsr(), -np.inf, np.array([limit for _, limit in rows]) + 1e-9)
    how = {"integrality": np.ones(times + 1), "bounds": Bounds(0, most), "options": {"time_limit": 10}}
    solved = milp(goal, constraints=limits, **how)
    return round(-solved.fun) if solved.status == 0 else 0


def test_after_a_change_at_most_half_as_many_workers_move_as_by_a_fresh_placement() -> None:
    """A node goes, a node comes, or a shape has other replicas; whoever was on the node that went has to move."""
    ours = fresh = 0
    for seed in range(300):
        rng = random.Random(seed)
        cluster = a_cluster(rng, rng.randint(3, 40))
        shapes = some_shapes(rng, cluster, 20)
        before = place(cluster, shapes, {})
        if before.lacking:
            continue
        kind = rng.randrange(3)
        if kind == 0:
            cluster = Cluster(tuple(node for node in cluster.nodes if node.id != "n1"))
        elif kind == 1:
            cluster = Cluster((*cluster.nodes, replace(rng.choice(cluster.nodes), id="n0a")))
        else:
            shapes = [replace(shape, count=max(1, shape.count + rng.randint(-5, 5))) for shape in shapes]
        there = {node.id for node in cluster.nodes}
        ours += _moves(before.seats, place(cluster, shapes, before.seats), shapes, there)
        fresh += _moves(before.seats, place(cluster, shapes, {}), shapes, there)
    print(f"{ours} workers moved, {fresh} by fresh placements")
    assert fresh > 100
    assert ours <= fresh / 2


def _moves(before: Seats, after: Placement, shapes: Sequence[Shape], there: set[str]) -> int:
    """Return how many workers on nodes that are there had to end although their shape still wants them."""
    ended = Placement(before, {}).started(after.seats)
    surplus = {shape.name: max(0, sum(before[shape.name].values()) - shape.count) for shape in shapes}
    left = {name: sum(count for at, count in on.items() if at in there) for name, on in ended.items()}
    return sum(max(0, count - surplus[name]) for name, count in left.items())
