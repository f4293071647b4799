"""Find workers that would be better on another node, and decide when moving them pays."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from runtime.placement.cluster import Cluster, NodeState
from runtime.placement.place import Seats, Shape
from runtime.placement.room import CPUS, PARTS, Ask, Room

FAR = 0.05
"""Fraction of a core that a worker loses if it is not on the near node: a hop takes 2.7 ms instead of 0.1 ms, which is
a twentieth of an item of 50 ms."""
AT_ONCE = 16
"""Maximum number of workers that move at a time, as each move starts a process."""


@dataclass(frozen=True, slots=True)
class Move:
    """A worker of a shape that would be better on another node."""

    shape: str
    source: str
    target: str
    gain: float
    """The additional work, in cores."""


def moves(cluster: Cluster, shapes: Sequence[Shape], present: Seats) -> list[Move]:
    """Return the moves with the largest gain, one after the other: workers that share a core go to nodes with a free
    core, and workers go to the near node if it has room. ``present`` counts workers of each shape on each node; workers
    on nodes that take no workers are ignored."""
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
    """Yield, for each shape and node, the move of one worker away from the node if it has a gain."""
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
    """Adds up the loss from not moving. Moves are due when the loss equals their cost (ski rental: at most twice the
    cost of a decision that knows how long the gain will last)."""

    def __init__(self) -> None:
        self._lost_s = 0.0
        self._seen: tuple[float, float] | None = None
        """Time of the latest check, and the loss at that time, in cores."""

    def are_due(self, found: Sequence[Move], price_s: float, now_s: float) -> bool:
        """Return whether moves with a total cost of ``price_s`` core-seconds are due; if so, start again from 0."""
        if self._seen is not None:
            self._lost_s += (now_s - self._seen[0]) * self._seen[1]
        self._seen = (now_s, sum(move.gain for move in found)) if found else None
        due = bool(found) and self._lost_s >= price_s
        if due or not found:
            self._lost_s, self._seen = 0.0, None
        return due
