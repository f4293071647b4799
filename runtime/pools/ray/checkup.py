"""Check each node of a Ray cluster from a process there: versions, clock, CPUs, token, TLS, connection back here."""

import platform
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from runtime.pools.ray import cluster

PATIENCE_S = 60.0
"""Time limit for a node to start a process for its report."""


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a node. ``seen``: the result of :func:`look`; empty if the node started no process in time."""

    address: str
    cpus: float
    """Ray's number of CPUs."""
    seen: dict[str, Any]
    clock_off_s: float = 0.0
    """Lead of its clock over ours; 0 if within the uncertainty of the round trip."""


def examine(address: str) -> list[Report]:
    """Connect to the cluster, and check one node after the other. Raises: ClusterError if it cannot be reached."""
    cluster.connect(address)
    try:
        with socket.create_server((cluster.own_address(), 0)) as back:
            return [_report(node, *back.getsockname()[:2]) for node in cluster.nodes()]
    finally:
        cluster.shutdown()


def _report(node: cluster.Node, host: str, port: int) -> Report:
    there: Any = _task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False))
    try:
        ray.get(there.remote(), timeout=PATIENCE_S)  # the process is there from now on
        before_s = time.time()
        seen = ray.get(there.remote(host, port), timeout=PATIENCE_S)
    except ray.exceptions.RayError:
        return Report(node.address, node.cores, {})
    early_s, late_s = seen["at_s"] - time.time(), seen["at_s"] - before_s
    return Report(node.address, node.cores, seen, max(0.0, early_s) + min(0.0, late_s))


def look(host: str = "", port: int = 0) -> dict[str, Any]:
    """Return facts about this process's node, and whether ``port`` is reachable. Only Ray may be installed here."""
    import os

    at_s, seen = time.time(), {"ray": ray.__version__, "python": platform.python_version()}
    try:
        from importlib.metadata import version

        from runtime.housekeeping import cpu_report

        seen |= {"recompose": version("recompose"), "cpus": cpu_report()}
    except ImportError:  # PackageNotFoundError is one
        pass
    try:
        if port:
            socket.create_connection((host, port), timeout=5.0).close()
        reached = True
    except OSError:
        reached = False
    settings = {"token": os.environ.get("RAY_AUTH_MODE") == "token", "TLS": os.environ.get("RAY_USE_TLS") == "1"}
    return {**seen, **settings, "at_s": at_s, "reached": reached}


ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
_task: Any = ray.remote(num_cpus=0, max_retries=0)(look)
