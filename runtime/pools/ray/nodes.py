"""Read the nodes of a Ray cluster (resources, reserved amounts, cores, state), and drain a node.

Ray's number of CPUs is a count of the machine or an operator's choice. Only a process on the node can see which CPUs,
memory and GPUs it may use. So a short task on each other node reports them once a minute, or every five seconds if the
node has GPUs.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import ray
from ray._private import state as ray_state
from ray.autoscaler.sdk import request_resources
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from compositions.resources import Need
from runtime.placement.cluster import Amounts, Cluster, Node, NodeReport, NodeState, cores_of
from runtime.pools.ray import guard
from runtime.pools.ray.hosted import ClusterError
from runtime.pools.ray.report import node_report

REPORT_EVERY_S, GPU_REPORT_EVERY_S = 60.0, 5.0
KEPT_S = 2.0
TELL_S = 10.0
"""Maximum wait for the first report of a node."""
PREEMPTION = 2
"""Ray's reason code for draining a node in use, which ends when its last worker has left or at the deadline."""
HEAD = "node:__internal_head__"
_OWN = ("CPU", "GPU", "memory", "object_store_memory")
"""Ray's own resources; all others are custom ones."""


class NodeWatch:
    """Reads the nodes of the cluster. Thread-safe; each ``look`` may wait for Ray's head."""

    def __init__(self) -> None:
        self._reports: dict[str, NodeReport] = {}
        self._asked: dict[str, tuple[Any, float]] = {}
        """The latest report task of each node (None if finished), and its time."""
        self._seen, self._seen_s = Cluster(()), -KEPT_S
        self._lock = threading.Lock()

    def recent(self) -> Cluster:
        """Return the latest view of the cluster if it is at most ``KEPT_S`` old; else ``look``."""
        fresh = time.monotonic() < self._seen_s + KEPT_S
        return self._seen if fresh and self._seen.near == _here() else self.look()

    def gpu_memory_bytes(self) -> int | None:
        """Return the memory of the smallest GPU; None if unknown. Wait up to ``TELL_S`` for nodes without a report."""
        give_up_s = time.monotonic() + TELL_S
        while (found := self.recent()).gpu_memory_bytes is None and time.monotonic() < give_up_s:
            if not any(node.has.gpus and node.seen is None for node in found.nodes):
                break
            time.sleep(0.1)
            self.look()
        return self._seen.gpu_memory_bytes

    def look(self) -> Cluster:
        """Return the living nodes. One that does not answer is ``suspect``."""
        with self._lock:
            living = [node for node in ray.nodes() if node["Alive"]]
            here = _here()
            has_gpus = {node["NodeID"]: bool(node["Resources"].get("GPU")) for node in living}
            self._collect_reports(here, has_gpus, time.monotonic())
            free, draining = ray_state.available_resources_per_node(), ray_state.state.get_draining_nodes()
            ports = {node["NodeID"]: (node["NodeManagerAddress"], node["NodeManagerPort"]) for node in living}
            silent = guard.silent(ports)
            states = dict.fromkeys(silent, NodeState.SUSPECT) | dict.fromkeys(draining, NodeState.DRAINING)
            found = [self._node(node, free.get(node["NodeID"]), states) for node in living]
            self._seen = Cluster(tuple(sorted(found, key=lambda node: (node.address, node.id))), here)
            self._seen_s = time.monotonic()
            return self._seen

    def _collect_reports(self, here: str, has_gpus: Mapping[str, bool], now_s: float) -> None:
        """Read finished reports and request due ones. ``has_gpus``: whether each living node has GPUs."""
        self._reports[here] = node_report(gpus=has_gpus.get(here, False))
        for node in has_gpus.keys() - {here}:
            every_s = GPU_REPORT_EVERY_S if has_gpus[node] else REPORT_EVERY_S
            task, asked_s = self._asked.get(node, (None, now_s - every_s))
            if task is not None and ray.wait([task], timeout=0)[0]:
                self._note_report(node, task)
                self._asked[node] = None, asked_s
            elif now_s >= asked_s + every_s:
                affinity = NodeAffinitySchedulingStrategy(node, soft=False)
                self._asked[node] = _report.options(scheduling_strategy=affinity).remote(gpus=has_gpus[node]), now_s
        for node in [node for node in self._asked if node not in has_gpus]:
            del self._asked[node]

    def _note_report(self, node: str, task: Any) -> None:
        try:
            self._reports[node] = ray.get(task)
        except ray.exceptions.RayError:  # the node is unreachable or ending: use Ray's number of CPUs
            self._reports.pop(node, None)

    def _node(self, node: Mapping[str, Any], free: Mapping[str, float] | None, states: Mapping[str, NodeState]) -> Node:
        has = _amounts(node["Resources"])
        name = node["NodeID"]
        taken = Amounts() if free is None else has.less(_amounts(free))
        seen = self._reports.get(name)
        has = replace(has, cpus=cores_of(has.cpus, None if seen is None else seen.cpus))
        state = states.get(name, NodeState.UP)
        return Node(name, has, taken, node.get("Labels") or {}, state, node["NodeManagerAddress"], seen)


def request(workers: Sequence[Need]) -> None:
    """Ask Ray's autoscaler, if any, for nodes that can hold these workers; each call replaces the one before."""
    request_resources(
        bundles=[_bundle(each) for each in workers], bundle_label_selectors=[dict(each.labels) for each in workers]
    )


def _bundle(need: Need) -> dict[str, float]:
    named = {"CPU": need.cpus or 0.0, "GPU": need.gpus, "memory": need.memory_bytes, **need.custom}
    return {name: amount for name, amount in named.items() if amount}


def drain(node: str, deadline_s: float) -> None:
    """Drain a node: Ray places nothing there any more, and at the deadline ends the node with all that still runs
    there. Raises: ClusterError if Ray refuses."""
    head = next((each["NodeID"] for each in ray.nodes() if HEAD in each["Resources"]), None)
    if node == head:
        raise ClusterError(f"node {node} has Ray's head, which all other nodes need; it cannot be drained")
    client = ray._raylet.GcsClient(address=ray.get_runtime_context().gcs_address)
    by_ms = time.time_ns() // 1_000_000 + round(1000 * deadline_s)
    accepted, why = client.drain_node(node, PREEMPTION, "drained by a user of Recompose", by_ms)
    if not accepted:
        raise ClusterError(f"Ray does not drain node {node}: {why}")
    WATCH.look()


def _here() -> str:
    node: str = ray.get_runtime_context().get_node_id()
    return node


def _amounts(of: Mapping[str, float]) -> Amounts:
    custom = {name: value for name, value in of.items() if name not in _OWN and not name.startswith("node:")}
    return Amounts(of.get("CPU", 0.0), of.get("GPU", 0.0), of.get("memory", 0.0), custom)


WATCH = NodeWatch()
"""The watch of this process."""
_report: Any = ray.remote(num_cpus=0, max_retries=0)(node_report)
