"""Weigh where workers are against where they would be better: which to move, and when the moves pay."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from runtime.placement.cluster import Cluster, NodeState
from runtime.placement.place import Seats, Shape
from runtime.placement.room import CPUS, PARTS, Ask, Room

FAR = 0.05
"""The part of a core that a worker loses on another node than the near one: a hop takes 2.7 ms instead of 0.1 ms, a
twentieth of an item of 50 ms."""
AT_ONCE = 16
"""Workers that move at a time: each move is the start of a process."""


@dataclass(frozen=True, slots=True)
class Move:
    """A worker of a shape would be better on another node."""

    shape: str
    source: str
    target: str
    gain: float
    """Cores that work more."""


def moves(cluster: Cluster, shapes: Sequence[Shape], present: Seats) -> list[Move]:
    """Return the moves that gain most, one after the other: workers that share a core with others to nodes with a free
    one, and workers to the near node if it has room. ``present`` counts workers of each shape on each node; those on
    nodes that take no workers are not looked at."""
    asks = {shape.name: Ask(shape.need) for shape in shapes}
    rooms = {node.id: Room(node) for node in cluster.nodes if node.is_open}
    seats = {name: {node: count for node, count in present.get(name, {}).items() if node in rooms} for name in asks}
    for name, on in seats.items():
        for node, count in on.items():
            rooms[node].seat(name, asks[name], count)
    found: list[Move] = []
    while len(found) < AT_ONCE:
        best = max(_moves(rooms, asks, seats, cluster.near), key=lambda move: move.gain, default=None)
        if best is None:
            break
        found.append(best)
        rooms[best.source].leave(best.shape, asks[best.shape])
        rooms[best.target].seat(best.shape, asks[best.shape], 1)
        seats[best.shape][best.source] -= 1
        seats[best.shape][best.target] = seats[best.shape].get(best.target, 0) + 1
    return found


def _moves(rooms: dict[str, Room], asks: dict[str, Ask], seats: Seats, near: str | None) -> Iterator[Move]:
    """Yield for each shape and node the move of one worker from there that gains something."""
    for name, ask in asks.items():
        open_ = [at for at, room in rooms.items() if room.node.state is NodeState.UP and room.fits(ask)]
        target = near if near in open_ else min(open_, key=lambda at: (rooms[at].left_over(ask), at), default=None)
        if target is None:
            continue
        for source in [at for at, count in seats[name].items() if count and at != target]:
            crowded = min(ask.amounts.get(CPUS, 0), max(0, -rooms[source].free[CPUS])) / PARTS
            gain = crowded + FAR * ((target == near) - (source == near))
            if gain > 0:
                yield Move(name, source, target, gain)


class Regret:
    """Adds up what staying has cost since there was something to gain. Moves are due when that is as much as they cost
    (ski rental: at most twice the cost of who knows for how long the gain lasts)."""

    def __init__(self) -> None:
        self._lost_s = 0.0
        self._seen: tuple[float, float] | None = None
        """When it was looked at last, and the cores that were lost then."""

    def are_due(self, found: Sequence[Move], price_s: float, now_s: float) -> bool:
        """Return whether moves that cost ``price_s`` seconds of a core together are due; then it begins anew."""
        if self._seen is not None:
            self._lost_s += (now_s - self._seen[0]) * self._seen[1]
        self._seen = (now_s, sum(move.gain for move in found)) if found else None
        due = bool(found) and self._lost_s >= price_s
        if due or not found:
            self._lost_s, self._seen = 0.0, None
        return due
