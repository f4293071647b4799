"""Have the node of this process leave its Ray before its container ends: ``python -m recompose.runtime.pools.ray.leave
SECONDS`` drains it, and returns when it is empty or after that time. KubeRay's pods do so before they end."""

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
    with suppress(Exception):  # Ray's raylet here has ended: it was empty
        while time.monotonic() < until_s and any(node.id == here for node in cluster.nodes()):
            time.sleep(LOOK_S)


if __name__ == "__main__":
    leave(float(sys.argv[1]))
