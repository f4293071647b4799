"""Show the nodes of the cluster, drain one, and ask Ray's autoscaler for what the load needs beyond them."""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import structlog

from compositions.model import Stage
from compositions.resources import Need, need_of
from runtime.placement.cluster import Cluster, Node, NodeState
from service.daemon.compositions import Specs
from service.daemon.observation import Observation
from service.daemon.runs import EACH_OF_ALL_S, Runs
from service.daemon.supervision.restart_policy import Up
from service.daemon.supervision.runner_slot import Host
from service.schemas.base import utc_now
from service.schemas.figures import DrainRequest, NodeBody, Worker
from service.schemas.refusals import ConflictError, NotFoundError, listed
from service.schemas.status import Status

log = structlog.get_logger()
LOOK_EVERY_S = 5.0
LOST_KEPT_S = 3600.0
DEADLINE_S = 30.0
"""Deadline that is assumed for a node that Ray drains by itself, in seconds."""


@dataclass(frozen=True, slots=True)
class Known:
    """A node as of the last look."""

    node: Node
    since: str
    """Time when its state was first seen."""
    changed_s: float
    """The same time on the monotonic clock."""


class NodeBook:
    """Remembers since when each node has its state, and lost nodes. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}
        self._begun = False
        self._lock = threading.Lock()

    def note(self, cluster: Cluster, now_s: float) -> list[Known]:
        """Record the present nodes; return all nodes. Changes are logged, except those of the first look."""
        with self._lock:
            found = {node.id: node for node in cluster.nodes}
            missing = [known for name, known in self._known.items() if name not in found]
            lost = [replace(known.node, state=NodeState.LOST) for known in missing]
            for node in (*found.values(), *lost):
                known = self._known.get(node.id)
                if known is None or known.node.state is not node.state:
                    self._known[node.id] = Known(node, utc_now(), now_s)
                    if self._begun:
                        _log(known, node)
                else:
                    self._known[node.id] = replace(known, node=node)
            self._begun = True
            for each in [each for each in self._known.values() if now_s - each.changed_s > LOST_KEPT_S]:
                if each.node.state is NodeState.LOST:
                    del self._known[each.node.id]
            return list(self._known.values())


def _log(before: Known | None, node: Node) -> None:
    where = {"node": node.address, "id": node.id}
    if node.state is NodeState.LOST and before is not None and before.node.state is NodeState.DRAINING:
        log.info("machine left the cluster", **where, reason="it was drained")
    elif node.state is NodeState.LOST:
        log.warning("machine lost", **where, consequence="its runners and workers are started on other machines")
    elif node.state is NodeState.SUSPECT:
        log.warning("machine does not answer", **where, consequence="it gets workers only if no other node has room")
    elif node.state is NodeState.DRAINING:
        log.info("machine is being drained", **where, consequence="its workers are replaced on other machines")
    elif before is None:
        log.info("machine joined the cluster", **where, cores=node.has.cpus)
    else:
        log.info("machine answers again", **where)


BUSY_SHARE = 0.8
"""Maximum share of its time in which a worker, or a core, is meant to be busy."""
KEPT_S = 600.0
"""Time in seconds for which resources are still requested after the load fell."""
CORE = Need(cpus=1.0)

Wanted = Counter[Need]
"""Number of workers by need; for workers that reserve nothing, the number of cores."""


def wanted_by(status: Status, stages: Sequence[Stage]) -> Wanted:
    """Return what the present load needs; empty until stages are measured, and without an input rate."""
    offered = status.demand.offered_per_s
    rate = status.input_rate_per_s if offered is None else offered
    measured = {each.name: each for each in status.stages if each.service_time_ms is not None}
    if not rate or len(measured) < len(stages):
        return Wanted()
    heavy = [[stage] for stage in stages if stage.setup == "per-group"]
    light = [stage for stage in stages if stage.setup != "per-group"]
    found = Wanted()
    for held in [*heavy, light]:
        need = need_of(held)
        figures = [measured[stage.name] for stage in held]
        times_ms = [each.service_time_ms if need.is_declared else each.cpu_time_ms for each in figures]
        busy = rate * sum(each or 0.0 for each in times_ms) / 1e3
        found[need if need.is_declared else CORE] += math.ceil(round(busy / BUSY_SHARE, 6))
    return +found


class Demand:
    """Adapts the request to the load: more at once, less only if less was enough for ``KEPT_S``."""

    def __init__(self, request: Callable[[Sequence[Need]], None], seen: Observation, runs: Runs, specs: Specs) -> None:
        """``request`` sends Ray all wanted workers; this replaces the previous request."""
        self._request, self._observation, self._runs, self._specs = request, seen, runs, specs
        self._stages: dict[str, Sequence[Stage]] = {}
        """Stages of each running app, with its options."""
        self._kept = Kept()
        self._told: Wanted | None = None

    def look(self) -> None:
        """Send a new request if the need has changed."""
        before, self._stages = self._stages, {}
        present = Wanted()
        for each in self._runs.all():
            spec = each.desired.spec
            key = f"{spec.app} {spec.options}"
            self._stages[key] = before.get(key) or self._specs.stages(spec)
            present += wanted_by(self._observation.status(spec.app, EACH_OF_ALL_S), self._stages[key])
        wanted = self._kept.at(time.monotonic(), present)
        if wanted != self._told:
            self._request(list(wanted.elements()))
            self._told = wanted
            log.info("requested nodes from Ray", workers={str(need): count for need, count in wanted.items()})


class Kept:
    """The maximum that was wanted of each kind within ``KEPT_S``."""

    def __init__(self) -> None:
        self._most: dict[Need, tuple[int, float]] = {}
        """The maximum by kind, with the time when that many were last wanted."""

    def at(self, now_s: float, present: Wanted) -> Wanted:
        """Return what is to be requested."""
        for need in {*self._most, *present}:
            count, at_s = self._most.get(need, (0, now_s))
            if present[need] >= count or now_s - at_s > KEPT_S:
                self._most[need] = present[need], now_s
        return +Wanted({need: count for need, (count, _) in self._most.items()})


class Nodes:
    """The nodes on which workers of the apps may run."""

    def __init__(self, host: Host, observation: Observation, runs: Runs, specs: Specs) -> None:
        self._host, self._observation, self._runs = host, observation, runs
        self._book = NodeBook()
        self._demand = Demand(host.request, observation, runs, specs)
        self.autoscale = False

    def look(self) -> float | None:
        """Look for changes; return the time until the next look, or None if the host has been left."""
        if not self._host.joined():
            return None
        if self._host.ready():
            self._move_runners(DEADLINE_S)
            if self.autoscale:
                self._demand.look()
        return LOOK_EVERY_S

    def _move_runners(self, deadline_s: float) -> None:
        """Have the runners leave draining nodes; half of the time until the deadline is for their last items."""
        draining = {each.node.address for each in self._present() if each.node.state is NodeState.DRAINING}
        for status in self._observation.statuses() if draining else ():
            runner, watchdog = status.health.runner, self._runs.present(status.app)
            up = watchdog is not None and isinstance(watchdog.condition, Up)  # else it is of the previous runner
            if runner is not None and runner.node in draining and watchdog is not None and up:
                watchdog.desired.move(f"node {runner.node} is to go", deadline_s / 2)

    def all(self) -> list[NodeBody]:
        """Return all nodes, by address."""
        known, statuses = self._present(), self._observation.statuses()
        shared = Counter(each.node.address for each in known if each.node.state is not NodeState.LOST)
        bodies = []
        for each in sorted(known, key=lambda known: (known.node.address, known.node.id)):
            own = each.node.state is not NodeState.LOST and shared[each.node.address] == 1
            there = _workers(statuses, each.node.address) if own else {}
            memory = [worker.memory_bytes for workers in there.values() for worker in workers]
            told = [one for one in memory if one is not None]
            counts = {app: len(workers) for app, workers in there.items()}
            placed = (one for status in statuses if status.app in there for one in status.resources.placement or ())
            hops_ms = [one.hop_ms for one in placed if one.node == each.node.address and one.hop_ms is not None]
            measured = {"workers_memory_bytes": sum(told) if told else None, "hop_ms": max(hops_ms, default=None)}
            bodies.append(NodeBody.of(each.node, each.since, counts, **measured))
        return bodies

    def reachable(self) -> list[NodeBody]:
        """Return all nodes; none while Ray does not answer."""
        return self.all() if self._host.joined() and self._host.ready() else []

    def drain(self, name: str, asked: DrainRequest) -> NodeBody:
        """Have all apps leave a node (id or address). Raises: NotFoundError; ConflictError if it cannot be drained."""
        living = [each.node for each in self._present() if each.node.state is not NodeState.LOST]
        found = [node for node in living if name in (node.id, node.address)]
        if len(found) != 1:
            there = listed([node.address for node in living])
            how = "there is no" if not found else "several nodes are"
            raise NotFoundError(f"{how} node {name!r}; give the address or id of a node; there are {there}")
        if not any(node.is_open for node in living if node.id != found[0].id):
            raise ConflictError(f"node {name} is the only one that accepts workers; add another before draining it")
        self._host.drain(found[0].id, asked.deadline_s)
        self._move_runners(asked.deadline_s)
        return next(each for each in self.all() if each.node == found[0].id)

    def _present(self) -> list[Known]:
        return self._book.note(self._host.cluster(), time.monotonic())


def _workers(statuses: list[Status], address: str) -> dict[str, list[Worker]]:
    found = {each.app: [worker for worker in each.workers if worker.node == address] for each in statuses}
    return {app: workers for app, workers in found.items() if workers}
