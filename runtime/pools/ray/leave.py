"""Drain the node of this process before its container ends: ``python -m recompose.runtime.pools.ray.leave SECONDS``
returns when the node is empty or after that time. KubeRay's pods run it before they end."""

import sys
import time
from contextlib import suppress

import ray

from runtime.pools.ray import cluster, nodes

LOOK_S = 0.5


def leave(deadline_s: float) -> None:
    """Drain this node, and wait at most ``deadline_s`` for its end. Raises: ClusterError if Ray refuses."""
    cluster.connect("auto")
    here, until_s = ray.get_runtime_context().get_node_id(), time.monotonic() + deadline_s
    nodes.drain(here, deadline_s)
    with suppress(Exception):  # Ray's raylet on this node has ended, as the node was empty
        while time.monotonic() < until_s and any(node.id == here for node in cluster.nodes()):
            time.sleep(LOOK_S)


if __name__ == "__main__":
    leave(float(sys.argv[1]))
