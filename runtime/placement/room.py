"""Track the free resources of one node of a cluster while workers are placed there.

All amounts are counted in ten-thousandths, as Ray does, so that ten tenths of a GPU are exactly one. A fraction of a
GPU goes to the fullest device that has room, which is Ray's choice too.
"""

from collections.abc import Mapping

from compositions.resources import Need
from runtime.placement.cluster import Amounts, Node, NodeState

PARTS = 10_000
CPUS, MEMORY = "cpus", "memory"
NO_LIMIT = 2**40


def has_labels(node: Node, labels: Mapping[str, str]) -> bool:
    return all(node.labels.get(name) == value for name, value in labels.items())


class Ask:
    """The need of a shape in the units of ``Room``. ``cpus``: the CPUs of a shape that reserves none."""

    def __init__(self, need: Need, cpus: float = 1.0) -> None:
        self.labels = need.labels
        self.gpu = parts(need.gpus)
        cpus = cpus if need.cpus is None else need.cpus
        amounts_ = plain(Amounts(cpus, 0.0, need.memory_bytes, need.custom))
        self.amounts = {name: value for name, value in amounts_.items() if value}


class Room:
    """The free resources of one node, and the GPUs (devices) of the workers that were placed on it."""

    def __init__(self, node: Node) -> None:
        taken = plain(node.taken)
        self.node = node
        self.free = {name: value - taken.get(name, 0) for name, value in plain(node.has).items()}
        self.devices = [PARTS] * int(node.has.gpus)
        self._take_gpus(parts(node.taken.gpus))
        self._held: dict[str, list[list[int]]] = {}
        """The devices of each worker, by shape."""
        self.workers = 0

    def fits(self, ask: Ask) -> int:
        """Return the number of workers of a shape that have room."""
        if (ask.gpu and not self.devices) or (ask.labels and not has_labels(self.node, ask.labels)):
            return 0
        most = NO_LIMIT
        for name, value in ask.amounts.items():
            if (room := self.free.get(name, 0) // value) < most:
                most = room
        if ask.gpu > PARTS:
            most = min(most, self.devices.count(PARTS) // (ask.gpu // PARTS))
        elif ask.gpu and most > 0:
            most = min(most, sum(free // ask.gpu for free in self.devices))
        return max(0, most)

    def seat(self, name: str, ask: Ask, count: int) -> None:
        """Take the resources of ``count`` workers."""
        self._change(ask, count)
        if ask.gpu:
            self._held.setdefault(name, []).extend(self._take_gpus(ask.gpu) for _ in range(count))

    def leave(self, name: str, ask: Ask) -> None:
        """Give back the resources of one worker: the one whose device has the most room."""
        self._change(ask, -1)
        if ask.gpu:
            held = max(self._held[name], key=lambda devices: max(self.devices[at] for at in devices))
            self._held[name].remove(held)
            for at in held:
                self.devices[at] += min(ask.gpu, PARTS)

    def _change(self, ask: Ask, count: int) -> None:
        self.workers += count
        for name, value in ask.amounts.items():
            self.free[name] = self.free.get(name, 0) - count * value

    def _take_gpus(self, share: int) -> list[int]:
        """Take whole devices, and the remaining fraction from the fullest one with room; return their indexes."""
        taken = []
        while share >= PARTS and PARTS in self.devices:
            taken.append(self.devices.index(PARTS))
            self.devices[taken[-1]] = 0
            share -= PARTS
        fit = [(free, at) for at, free in enumerate(self.devices) if free >= share > 0]
        if fit:
            taken.append(min(fit)[1])
            self.devices[taken[-1]] -= share
        return taken

    def left_over(self, ask: Ask) -> tuple[int, int]:
        """Return the resources that the shape would leave unused on this node: those it does not need, and the CPUs."""
        unused = sum(self.devices) if not ask.gpu else 0
        unused += sum(free for name, free in self.free.items() if name not in (*ask.amounts, CPUS, MEMORY))
        return unused, self.free[CPUS]

    @property
    def crowd(self) -> tuple[bool, float]:
        """Crowding of the node with one more worker, as a sort key: suspect nodes last, then workers per core."""
        return self.node.state is NodeState.SUSPECT, (self.workers + 1) / max(self.node.has.cpus, 1 / PARTS)


def plain(of: Amounts) -> dict[str, int]:
    """Return all amounts except GPUs as whole numbers, by name."""
    custom = {f"custom {name}": parts(value) for name, value in of.custom.items()}
    return {CPUS: parts(of.cpus), MEMORY: int(of.memory_bytes)} | custom


def parts(value: float) -> int:
    return round(value * PARTS)
