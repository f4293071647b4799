"""Place workers of several shapes on a cluster: present workers stay, the runner's node comes first, then best fit."""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from math import inf
from typing import NamedTuple

from compositions.resources import Need, amounts, labels_told
from runtime.placement.cluster import Amounts, Cluster, Node, NodeState, total
from runtime.placement.room import CPUS, MEMORY, PARTS, Ask, Room, has_labels

ORDERS_OF_ALL, MOVES_OF_ALL = 2_400, 2_400
"""Maximum number of orders tried, and of workers moved in each to make room for another, both divided by the number of
shapes times nodes. So 1,000 workers on 100 nodes take about 20 ms."""
Seats = Mapping[str, Mapping[str, int]]
"""Workers of each shape (by its name) on each node (by its id)."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of workers: their need, and the desired number."""

    name: str
    need: Need
    count: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Workers by shape and node. ``lacking``: the number of workers of each shape that found no place."""

    seats: Seats
    lacking: Mapping[str, int]
    reasons: tuple[str, ...] = ()
    """A sentence for each shape that lacks workers."""

    @property
    def workers(self) -> int:
        """Number of workers that found a place."""
        return sum(sum(on.values()) for on in self.seats.values())

    def started(self, present: Seats) -> dict[str, dict[str, int]]:
        """Return the workers to start, by shape and node."""
        found = {
            name: {node: count - present.get(name, {}).get(node, 0) for node, count in on.items()}
            for name, on in self.seats.items()
        }
        return {name: {node: count for node, count in on.items() if count > 0} for name, on in found.items()}


def place(cluster: Cluster, shapes: Sequence[Shape], present: Seats) -> Placement:
    """Place the workers of ``shapes``. Workers in ``present`` stay while their node is open and has room and their
    shape needs as many. One moves only if another worker finds no place otherwise.

    Workers of a shape that reserves no CPU take free CPUs, one each. Further ones go to the node with the fewest
    workers per core; they take no reservation from others.
    """
    best = Placement({}, {shape.name: shape.count for shape in shapes})
    size = len(shapes) * max(1, len(cluster.nodes))
    for order in islice(_orders(cluster, shapes), max(3, ORDERS_OF_ALL // size)):
        attempt = _Attempt(cluster, shapes, present)
        attempt.fill(order, max(1, MOVES_OF_ALL // size))
        found = attempt.placement(shapes)
        if found.workers > best.workers or not best.reasons:
            best = found
        if not found.lacking:
            break
    return best


def capacity(cluster: Cluster, need: Need) -> int:
    """Return the number of workers of one shape that have room on the nodes that are up. Workers that reserve no CPU
    are not limited by the number of CPUs."""
    ask = Ask(need, cpus=0.0)
    return sum(Room(node).fits(ask) for node in cluster.nodes if node.state is NodeState.UP)


def lacking_for(cluster: Cluster, shapes: Sequence[Shape]) -> str | None:
    """Return why the open nodes of the cluster could not hold these workers even if empty; None if they could."""
    declared = [shape for shape in shapes if shape.need.is_declared]
    nodes = tuple(replace(node, taken=Amounts()) for node in cluster.nodes if node.is_open)
    return next(iter(place(Cluster(nodes), declared, {}).reasons), None) if declared else None


class _Order(NamedTuple):
    """An order of placing shapes. ``mixed``: each node first gets a mixture of all shapes. ``roomy``: the first node is
    the one with room for the most workers of the shape, rather than the one with the least left over."""

    shapes: Sequence[Shape]
    mixed: bool = False
    roomy: bool = False


def _orders(cluster: Cluster, shapes: Sequence[Shape]) -> Iterator[_Order]:
    """Yield orders to try: the largest shape first (mostly the best fit) or last; then each shape first or last."""
    large = sorted(shapes, key=lambda shape: -_share(shape.need, cluster.nodes))
    yield _Order(large)
    if len(shapes) > 1:
        yield _Order(large, mixed=True)
        yield _Order(large, roomy=True)
        for roomy in (True, False):
            yield _Order(large[::-1], roomy=roomy)
            yield _Order(large[::-1], mixed=True, roomy=roomy)
        for backwards, shape in product((False, True), large):
            others = [each for each in large[:: -1 if backwards else 1] if each is not shape]
            for roomy in (True, False):
                yield _Order([shape, *others], roomy=roomy)
                yield _Order([*others, shape], roomy=roomy)


def _share(need: Need, nodes: Iterable[Node]) -> float:
    """Return the largest fraction that a worker takes of any resource of the nodes that it may be on."""
    has = total(node.has for node in nodes if node.is_open and has_labels(node, need.labels))
    pairs = [(need.cpus or 0.0, has.cpus), (need.gpus, has.gpus), (need.memory_bytes, has.memory_bytes)]
    pairs += [(value, has.custom.get(name, 0.0)) for name, value in need.custom.items()]
    return max((wanted / there if there else inf) if wanted else 0.0 for wanted, there in pairs)


class _Attempt:
    """One attempt to place all shapes: shapes that reserve CPUs first, as the others take nothing from them."""

    def __init__(self, cluster: Cluster, shapes: Sequence[Shape], present: Seats) -> None:
        self._near, self._present = cluster.near, present
        self._rooms = {node.id: Room(node) for node in cluster.nodes if node.is_open}
        self._asks = {shape.name: Ask(shape.need) for shape in shapes}
        self._seats: dict[str, dict[str, int]] = {shape.name: {} for shape in shapes}
        self._lacking = {shape.name: shape.count for shape in shapes}

    def fill(self, order: _Order, most_moves: int) -> None:
        """Place the desired workers in this order; move others to make room for at most ``most_moves`` workers."""
        shapes, mixed, self._roomy = order
        firm = [shape.name for shape in shapes if shape.need.cpus is not None]
        loose = {shape.name: Ask(shape.need, 0.0) for shape in shapes if shape.need.cpus is None}
        for name in firm:
            self._keep(name, self._asks[name])
        for room in sorted(self._rooms.values(), key=lambda room: room.node.id != self._near) if mixed else ():
            self._mix(firm, room)
        for name in firm:
            self._pack(name)
        for name in firm:
            moved = True
            while moved and most_moves and self._lacking[name]:
                moved = self._make_room(name, firm)
                most_moves -= 1
        for name, ask in loose.items():
            self._keep(name, ask)
        for name, ask in loose.items():
            self._pack(name)
            self._overfill(name, ask)

    def placement(self, shapes: Sequence[Shape]) -> Placement:
        """Return the placement that was found."""
        lacking = {name: count for name, count in self._lacking.items() if count}
        seats = {name: {node: count for node, count in on.items() if count} for name, on in self._seats.items()}
        return Placement(seats, lacking, tuple(self._why(each) for each in shapes if each.name in lacking))

    def _seat(self, name: str, node: str, count: int) -> None:
        if count > 0:
            self._rooms[node].seat(name, self._asks[name], count)
            self._seats[name][node] = self._seats[name].get(node, 0) + count
            self._lacking[name] -= count

    def _keep(self, name: str, ask: Ask) -> None:
        """Place the present workers where they are, those on the near node first."""
        for node, count in sorted(self._present.get(name, {}).items(), key=lambda on: on[0] != self._near):
            if node in self._rooms:
                self._seat(name, node, min(count, self._rooms[node].fits(ask), self._lacking[name]))

    def _mix(self, names: Sequence[str], room: Room) -> None:
        """Place as large a fraction of the lacking workers as the node has room for, the same for each shape."""
        here = [name for name in names if has_labels(room.node, self._asks[name].labels)]
        wanted: dict[str, int] = {}
        for name in here:
            for resource, value in self._asks[name].amounts.items():
                wanted[resource] = wanted.get(resource, 0) + value * self._lacking[name]
        gpus = sum(self._asks[name].gpu * self._lacking[name] for name in here)
        parts = [room.free.get(resource, 0) / value for resource, value in wanted.items() if value]
        part = min([1.0, *parts, *([sum(room.devices) / gpus] if gpus else [])])
        for name in here:
            count = int(part * self._lacking[name] + 1 / PARTS)
            self._seat(name, room.node.id, min(count, room.fits(self._asks[name])))

    def _pack(self, name: str) -> None:
        """Fill one node after the other: suspect nodes last, the near one first, the others as the order ranks them."""
        ask = self._asks[name]

        def rank(room: Room) -> tuple[bool, bool, int, int, str]:
            found = (-room.fits(ask), 0) if self._roomy else room.left_over(ask)
            return room.node.state is NodeState.SUSPECT, room.node.id != self._near, *found, room.node.id

        for room in sorted(self._rooms.values(), key=rank) if self._lacking[name] else ():
            if not self._lacking[name]:
                break
            self._seat(name, room.node.id, min(self._lacking[name], room.fits(ask)))

    def _make_room(self, name: str, firm: Sequence[str]) -> bool:
        """Place one worker where one of another shape can move elsewhere. Return whether that was possible."""
        ask = self._asks[name]
        homes = {each: [at for at, room in self._rooms.items() if room.fits(self._asks[each])] for each in firm}
        for node, room in self._rooms.items() if any(homes.values()) else ():
            for other in firm if has_labels(room.node, ask.labels) else ():
                home = next((at for at in homes[other] if at != node), None)
                if other == name or not self._seats[other].get(node) or home is None:
                    continue
                room.leave(other, self._asks[other])
                if room.fits(ask):
                    self._seats[other][node] -= 1
                    self._lacking[other] += 1
                    self._seat(other, home, 1)
                    self._seat(name, node, 1)
                    return True
                room.seat(other, self._asks[other], 1)
        return False

    def _overfill(self, name: str, ask: Ask) -> None:
        """Place workers that reserve no CPU beyond the number of CPUs, on nodes with the fewest workers per core."""
        heap = [(room.crowd, node) for node, room in self._rooms.items()]
        heapq.heapify(heap)
        while heap and self._lacking[name]:
            _, node = heapq.heappop(heap)
            room = self._rooms[node]
            if room.fits(ask):
                self._seat(name, node, 1)
                heapq.heappush(heap, (room.crowd, node))

    def _why(self, shape: Shape) -> str:
        """Return the sentence for a shape that lacks workers."""
        seated, need = shape.count - self._lacking[shape.name], shape.need
        fit = f"{seated} of {shape.count} {'worker' if shape.count == 1 else 'workers'} of {shape.name} fit"
        rooms = [room for room in self._rooms.values() if has_labels(room.node, need.labels)]
        if not rooms:
            return f"{fit}: there is no node with {labels_told(need.labels)}"
        rank = [PARTS * room.devices.count(PARTS) if need.gpus > 1 else max(room.devices, default=0) for room in rooms]
        pairs = zip(rank, rooms, strict=True)
        gpus, most = max(pairs, key=lambda pair: (pair[0] * bool(need.gpus), pair[1].free[CPUS]))
        custom = {name: most.free.get(f"custom {name}", 0) / PARTS for name in need.custom}
        has = amounts(most.free[CPUS] / PARTS, gpus / PARTS, most.free[MEMORY], custom)
        has += ", but no GPU" if need.gpus and not gpus else ""
        return f"{fit}: each needs {need}, and the node with the most left has {has}"
